#include "server/access_log.h"

#include <cstdio>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/utf8.h"
#include "text/json_text.h"

namespace ft::server {

void AccessLog::write(const Incoming& incoming, const AccessLine& line) const {
  if (quiet_) return;
  const std::string path = utf8_replace_invalid(incoming.path);
  if (!json_) {
    log_info(fmt::format("{} {} {} {:.0f} ms{}{}", incoming.method, path, line.status, line.ms,
                         line.note.empty() ? "" : ", ", line.note));
    return;
  }
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const std::string text = fmt::format(
      "{{\"time\":\"{:%FT%TZ}\",\"id\":{},\"method\":{},\"path\":{},\"status\":{},\"ms\":{:.1f},\"note\":{}}}"
      "\n",
      now, json_quoted(utf8_replace_invalid(incoming.id)), json_quoted(incoming.method), json_quoted(path),
      line.status, line.ms, json_quoted(line.note));
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace ft::server
