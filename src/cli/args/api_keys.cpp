#include "cli/args/api_keys.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/text_file.h"

namespace ft::cli {
namespace {

std::string_view without_blanks(std::string_view line) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Status check_key(std::string_view key) {
  const auto refused = [](std::string why) { return Error{Code::kInvalid, std::move(why)}; };
  if (key.empty()) {
    return refused("the key is empty; give a key, or omit the flag");
  }
  if (key.size() > kMaxKeyBytes) {
    return refused(
        fmt::format("the key has {} bytes, more than the limit of {}; shorten it", key.size(), kMaxKeyBytes));
  }
  const auto wrong = std::find_if(key.begin(), key.end(), [](char c) { return c <= ' ' || c > '~'; });
  if (wrong == key.end()) return {};
  return refused(
      fmt::format("the key's character {} is a blank, a control character or not ASCII; use visible ASCII "
                  "characters only",
                  wrong - key.begin() + 1));
}

Setter appends_key(std::vector<std::string>& keys) {
  return [&keys](const std::string& text) -> Status {
    FT_TRY(check_key(text));
    keys.push_back(text);
    return {};
  };
}

Result<std::vector<std::string>> parse_keys(std::string_view text, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> keys;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = without_blanks(line);
    if (line.empty() || line.front() == '#') continue;
    if (const Status status = check_key(line); !status.ok()) {
      return Error{Code::kInvalid, fmt::format("{} line {}: {}", name, line_number, status.error().message)};
    }
    keys.emplace_back(line);
  }
  if (keys.empty()) {
    return Error{Code::kInvalid,
                 fmt::format("{} has no key; write one key per line, or omit the flag", name)};
  }
  return keys;
}

Result<std::vector<std::string>> read_key_file(const std::string& path) {
  FT_ASSIGN(const std::string text, read_text_file(path, kMaxKeyFileBytes));
  return parse_keys(text, path);
}

}  // namespace ft::cli
