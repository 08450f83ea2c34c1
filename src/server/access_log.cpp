#include "server/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/json_text.h"

namespace ft::server {
namespace {

constexpr std::size_t kMaxFieldBytes = 1024;  // cap for a path of up to kMaxRequestHeaderBytes

std::string cut(std::string_view text) {
  const std::string valid = utf8_replace_invalid(text.substr(0, kMaxFieldBytes));
  return text.size() > kMaxFieldBytes ? valid + "..." : valid;
}

}  // namespace

std::string access_text(const HttpRequest& http_request, const AccessLine& line, bool json) {
  if (!json) {
    const auto field = [](std::string_view text) { return escape_controls(cut(text), {}, true); };
    return fmt::format("{} {} {} {:.0f} ms{}{}", field(http_request.method), field(http_request.path),
                       line.status, line.ms, line.note.empty() ? "" : ", ", field(line.note));
  }
  // JSON's own escapes; other controls use JSON's \uXXXX form.
  const auto quoted = [](std::string_view text) { return escape_controls(json_quoted(cut(text))); };
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return fmt::format(
      "{{\"time\":\"{:%FT%TZ}\",\"id\":{},\"method\":{},\"path\":{},\"status\":{},\"ms\":{:.1f},\"note\":{}}"
      "}",
      now, quoted(http_request.id), quoted(http_request.method), quoted(http_request.path), line.status,
      line.ms, quoted(line.note));
}

bool is_poll(const HttpRequest& http_request, const AccessLine& line) {
  constexpr int kOk = 200;
  if (line.status != kOk || (http_request.method != "GET" && http_request.method != "HEAD")) return false;
  return http_request.path == "/health" || http_request.path == "/metrics" ||
         http_request.path == "/v1/cache";
}

void AccessLog::write(const HttpRequest& http_request, const AccessLine& line) const {
  if (quiet_ || (is_poll(http_request, line) && log_level() > LogLevel::kDebug)) return;
  if (json_) return log_plain(access_text(http_request, line, true));
  log_info(access_text(http_request, line, false));
}

}  // namespace ft::server
