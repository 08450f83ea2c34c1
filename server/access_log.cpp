#include "server/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/utf8.h"
#include "text/json_text.h"

namespace ft::server {
namespace {

constexpr std::size_t kMaxFieldBytes = 1024;  // cap for a path of up to kMaxHeadBytes

/// The first code point of `text`, which is UTF-8, and its byte count.
std::pair<char32_t, std::size_t> first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  char32_t point = size == 1 ? byte(0) : byte(0) & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) point = point << 6U | (byte(i) & 0x3FU);
  return {point, size};
}

/// Characters that a terminal or line reader may interpret: C0 and C1 controls, line and paragraph
/// separators, and marks that change a line's direction.
bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x200E && point <= 0x200F) ||
         (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

/// `text` is UTF-8.
std::string escaped(std::string_view text, bool backslash) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const auto [point, size] = first_of(rest);
    if (is_control(point)) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point));
    } else {
      if (point == '\\' && backslash) out += '\\';
      out += rest.substr(0, size);
    }
    rest.remove_prefix(size);
  }
  return out;
}

std::string cut(std::string_view text) {
  const std::string valid = utf8_replace_invalid(text.substr(0, kMaxFieldBytes));
  return text.size() > kMaxFieldBytes ? valid + "..." : valid;
}

}  // namespace

std::string access_text(const HttpRequest& http_request, const AccessLine& line, bool json) {
  if (!json) {
    const auto field = [](std::string_view text) { return escaped(cut(text), true); };
    return fmt::format("{} {} {} {:.0f} ms{}{}", field(http_request.method), field(http_request.path),
                       line.status, line.ms, line.note.empty() ? "" : ", ", field(line.note));
  }
  // JSON's own escapes; other controls use JSON's \uXXXX form.
  const auto quoted = [](std::string_view text) { return escaped(json_quoted(cut(text)), false); };
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return fmt::format(
      "{{\"time\":\"{:%FT%TZ}\",\"id\":{},\"method\":{},\"path\":{},\"status\":{},\"ms\":{:.1f},\"note\":{}}"
      "}",
      now, quoted(http_request.id), quoted(http_request.method), quoted(http_request.path), line.status,
      line.ms, quoted(line.note));
}

void AccessLog::write(const HttpRequest& http_request, const AccessLine& line) const {
  if (quiet_) return;
  if (json_) return log_plain(access_text(http_request, line, true));
  log_info(access_text(http_request, line, false));
}

}  // namespace ft::server
