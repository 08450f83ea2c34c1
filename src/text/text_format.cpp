#include "text/text_format.h"

#include <algorithm>
#include <fmt/format.h>

#include "text/json_text.h"

namespace ft {

namespace {

char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

/// A regular expression as a terminal of Lark.
std::string terminal(std::string_view expression) {
  std::string text;
  bool escaped = false;
  for (const char c : expression) {
    if (c == '/' && !escaped) text += '\\';
    if (c == '\n') {
      text += escaped ? "n" : "\\n";
    } else {
      text += c;
    }
    escaped = c == '\\' && !escaped;
  }
  return "/(" + text + ")/";
}

}  // namespace

std::string lark_of(const TextFormat& format, const std::string& rule, const TextEnd& end,
                    std::string& lark) {
  const std::string suffix = end.suffix.empty() ? "" : json_quoted(end.suffix);
  if (format.syntax == "regex") {
    std::string text = terminal(format.definition);
    if (!end.without.empty()) {
      std::string name = rule;
      std::ranges::transform(name, name.begin(), ascii_upper);
      lark += fmt::format("{}: {} & ~/(?s:.*){}(?s:.*)/\n", name, text, end.without);
      text = name;
    }
    lark += fmt::format("{}{}: {}\n", rule, suffix.empty() ? "" : fmt::format("[suffix={}]", suffix), text);
    return rule;
  }
  lark += fmt::format("{}: %lark {{\n{}\n}}\n", rule, format.definition);
  return suffix.empty() ? rule : fmt::format("{} {}", rule, suffix);
}

}  // namespace ft
