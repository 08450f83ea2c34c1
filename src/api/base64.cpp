#include "api/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ft::api {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::array<std::int8_t, 256> digit_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<std::int8_t>(i);
  values['-'] = 62, values['_'] = 63;  // the alphabet of URLs (RFC 4648, section 5)
  return values;
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[group >> (18 - 6 * i) & 63U] : '=';
  }
  return text;
}

Result<std::string> decode_base64(std::string_view text) {
  static const std::array<std::int8_t, 256> kValues = digit_values();
  constexpr std::string_view kBlank = " \t\r\n\f";  // of wrapped text, as `base64` and mail write it
  text = text.substr(0, text.find_last_not_of(std::string(kBlank) + "=") + 1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const std::int32_t value{kValues[static_cast<unsigned char>(c)]};
    if (value < 0 && kBlank.find(c) != std::string_view::npos) continue;
    if (value < 0) return Error{Code::kInvalid, "is not base64; encode the file's bytes"};
    group = group << 6 | static_cast<std::uint32_t>(value), bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 255U);
  }
  if (bits == 6) return Error{Code::kInvalid, "is truncated base64; send all of it"};
  return bytes;
}

}  // namespace ft::api
