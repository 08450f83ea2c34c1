#include "text/text_format.h"

#include <fmt/format.h>

#include "text/json_text.h"

namespace ft {

namespace {

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

std::string lark_of(const TextFormat& format, const std::string& rule, std::string_view suffix,
                    std::string& lark) {
  const std::string end = suffix.empty() ? "" : json_quoted(suffix);
  if (format.syntax == "regex") {
    const std::string attribute = end.empty() ? "" : fmt::format("[suffix={}]", end);
    lark += fmt::format("{}{}: {}\n", rule, attribute, terminal(format.definition));
    return rule;
  }
  lark += fmt::format("{}: %lark {{\n{}\n}}\n", rule, format.definition);
  return end.empty() ? rule : fmt::format("{} {}", rule, end);
}

}  // namespace ft
