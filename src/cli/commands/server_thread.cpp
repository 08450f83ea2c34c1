#include "cli/commands/server_thread.h"

#include <fmt/format.h>

#include "base/log.h"
#include "server/host.h"

namespace ft::cli {
namespace {

Result<std::vector<std::string>> read_hosts(const ServeOptions& choice) {
  for (const std::string& host : choice.hosts) {
    if (server::may_be_allowed(host)) continue;
    return Error{Code::kInvalid, fmt::format("--allow-host: \"{}\" is not a host; write a name or an address "
                                             "without scheme and port, such as example.org",
                                             host)};
  }
  return choice.hosts;
}

}  // namespace

Result<server::ServerOptions> server_options(const ServeOptions& choice, bool quiet) {
  server::ServerOptions chosen;
  FT_ASSIGN(ServingKeys keys, serving_keys(choice));
  chosen.api_keys = std::move(keys.users), chosen.admin_keys = std::move(keys.operators);
  chosen.host = choice.host, chosen.port = choice.port;
  chosen.header_ms = choice.head_s * 1000, chosen.idle_ms = choice.idle_s * 1000;
  chosen.origins = choice.origins;
  FT_ASSIGN(chosen.hosts, read_hosts(choice));
  chosen.log_json = choice.log_json, chosen.quiet = quiet;
  return chosen;
}

void read_keys_again(const ServeOptions& choice, server::Server& server) {
  if (choice.api_key_file.empty() && choice.admin_key_file.empty()) {
    return log_info("SIGHUP: there is no key file to reload");
  }
  const Result<ServingKeys> keys = serving_keys(choice);
  if (!keys.ok()) {
    return log_error(fmt::format("SIGHUP: the keys are unchanged: {}", keys.error().message));
  }
  server.replace_keys(keys->users, keys->operators);
  log_info(fmt::format("SIGHUP: reloaded {} keys and {} operators' keys", keys->users.size(),
                       keys->operators.size()));
}

void end_answers(bool quiet, const std::function<bool()>& drain) {
  const auto note = [&](std::string_view line) {  // not the terminal's: stderr may have no reader any more
    if (!quiet) log_plain(line);
  };
  note("stopping after running answers finish; press Ctrl-C again to stop at once");
  if (!drain()) note("some answers exceeded the grace period and were cancelled");
  constexpr int kLastLinesMs = 500;
  (void)flush_log(kLastLinesMs);
}

bool wait_for_answers(const server::App& app, std::chrono::milliseconds limit) {
  constexpr auto kPause = std::chrono::milliseconds(5);
  const auto end = std::chrono::steady_clock::now() + limit;
  while (app.decoding() > 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kPause);
  return app.decoding() == 0;
}

}  // namespace ft::cli
