#include "text/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ft {

void append_json_escaped(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[c >> 4];
          out += kHex[c & 15];
        } else {
          out += c;
        }
    }
  }
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(text, out);
  return out += '"';
}

int json_depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

bool is_json(std::string_view text, int max_depth) {
  // nlohmann treats a NUL as the end of the text; JSON does not allow it.
  return text.find('\0') == std::string_view::npos && json_depth(text) <= max_depth &&
         nlohmann::json::accept(text.begin(), text.end());
}

}  // namespace ft
