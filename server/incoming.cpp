#include "server/incoming.h"

#include <algorithm>

namespace ft::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool same_name(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::string_view Incoming::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) return value;
  }
  return {};
}

api::Dialect Incoming::dialect() const {
  const bool anthropic = path.starts_with("/v1/messages") || !header("anthropic-version").empty();
  return anthropic ? api::Dialect::kAnthropic : api::Dialect::kOpenAi;
}

}  // namespace ft::server
