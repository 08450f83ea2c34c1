#include "base/printable.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace ft {
namespace {

/// The first code point of `text`, which is UTF-8, and its byte count.
std::pair<char32_t, std::size_t> first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  char32_t point = size == 1 ? byte(0) : byte(0) & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) point = point << 6U | (byte(i) & 0x3FU);
  return {point, size};
}

bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x200E && point <= 0x200F) ||
         (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

}  // namespace

std::string escape_controls(std::string_view utf8, std::string_view kept, bool backslashes) {
  std::string out;
  for (std::string_view rest = utf8; !rest.empty();) {
    const auto [point, size] = first_of(rest);
    if (is_control(point) && kept.find(rest.front()) == std::string_view::npos) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point));
    } else {
      if (point == '\\' && backslashes) out += '\\';
      out += rest.substr(0, size);
    }
    rest.remove_prefix(size);
  }
  return out;
}

std::string printable(std::string_view text) { return escape_controls(utf8_replace_invalid(text), "\n\t"); }

}  // namespace ft
