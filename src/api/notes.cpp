#include "api/notes.h"

#include <fmt/format.h>

namespace ft::api {
namespace {

constexpr std::size_t kMaxNamed = 16;  // of each list
constexpr std::size_t kMaxNameBytes = 64;

void add(std::string& list, std::size_t index, const std::string& one) {
  if (index > kMaxNamed) return;
  if (index > 0) list += ", ";
  list += index == kMaxNamed ? "..." : one;
}

}  // namespace

std::string plain_name(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, kMaxNameBytes)) {
    const bool plain = c > ' ' && c <= '~' && c != ',' && c != '=' && c != '"';
    text += plain ? c : '?';
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> Notes::headers() const {
  std::vector<std::pair<std::string, std::string>> fields;
  std::string types, names;
  std::size_t index = 0;
  for (const auto& [type, count] : skipped)
    add(types, index++, fmt::format("{}={}", plain_name(type), count));
  index = 0;
  for (const std::string& name : unknown) add(names, index++, plain_name(name));
  if (!types.empty()) fields.emplace_back("X-Skipped", types);
  if (!names.empty()) fields.emplace_back("X-Unknown-Fields", names);
  return fields;
}

}  // namespace ft::api
