// json_of_python_literal: a recursive-descent parser for Python's displays and atoms, which models write
// instead of JSON. Strings keep \n-like escapes and \uXXXX. Any other expression (names, calls, arithmetic)
// makes the whole text invalid.
#include <algorithm>

#include "text/json_text.h"
#include "text/tags.h"
#include "text/tool_schema.h"

namespace ft {

namespace {

constexpr int kMaxLiteralDepth = 100;

class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  std::string json() {
    std::string out;
    const bool whole = value(out, 0) && (skip_space(), at_ == text_.size());
    return whole && is_json(out, kMaxLiteralDepth) ? out : "";
  }

 private:
  void skip_space() { at_ = std::min(text_.find_first_not_of(kTagSpace, at_), text_.size()); }

  bool take(std::string_view what) {
    skip_space();
    if (!text_.substr(at_).starts_with(what)) {
      return false;
    }
    at_ += what.size();
    return true;
  }

  bool value(std::string& out, int depth) {
    skip_space();
    if (depth > kMaxLiteralDepth || at_ >= text_.size()) {
      return false;
    }
    const char c = text_[at_];
    if (c == '\'' || c == '"') {
      return string(out);
    }
    if (take("{")) {
      return members(out, depth, '{', "}");
    }
    if (take("[")) {
      return members(out, depth, '[', "]");
    }
    if (take("(")) {
      return members(out, depth, '[', ")");
    }
    return atom(out);
  }

  /// Parses after the opening bracket; a trailing comma is allowed.
  bool members(std::string& out, int depth, char open, std::string_view close) {
    out += open;
    for (bool first = true; !take(close); first = false) {
      if (!first) {
        if (!take(",")) {
          return false;
        }
        if (take(close)) {
          break;
        }
        out += ',';
      }
      const bool pair = open == '{';
      if (pair && (!value(out, depth + 1) || !take(":"))) {
        return false;
      }
      out += pair ? ":" : "";
      if (!value(out, depth + 1)) {
        return false;
      }
    }
    out += open == '{' ? '}' : ']';
    return true;
  }

  bool atom(std::string& out) {
    const size_t from = at_;
    while (at_ < text_.size() &&
           std::string_view(",:]}) \t\r\n").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    const std::string_view word = text_.substr(from, at_ - from);
    if (word == "True" || word == "true") {
      out += "true";
    } else if (word == "False" || word == "false") {
      out += "false";
    } else if (word == "None" || word == "null") {
      out += "null";
    } else {
      out += word;  // a number; otherwise is_json refuses the whole text
    }
    return !word.empty();
  }

  bool string(std::string& out) {
    const char quote = text_[at_++];
    std::string raw;
    out += '"';
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        append_json_escaped(raw, out);
        raw.clear();
        ++at_;
        if (!escape(text_[at_], out)) {
          return false;
        }
      } else {
        raw += text_[at_];
      }
    }
    append_json_escaped(raw, out);
    out += '"';
    return at_ < text_.size() && text_[at_++] == quote;
  }

  /// Converts one escape of a Python string to JSON; \uXXXX is the same in both.
  static bool escape(char c, std::string& out) {
    switch (c) {
      case '\'':
        out += '\'';
        return true;
      case '"':
      case '\\':
      case 'n':
      case 't':
      case 'r':
      case 'b':
      case 'f':
      case 'u':
        out += '\\';
        out += c;
        return true;
      default:
        return false;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string json_of_python_literal(std::string_view text) { return Literal(text).json(); }

}  // namespace ft
