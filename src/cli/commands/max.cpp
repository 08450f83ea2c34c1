// `foretoken max`: the fans of a Mac at maximum, through ThermalForge.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/json.h"
#include "base/system.h"
#include "cli/args/option_flags.h"
#include "cli/commands/subcommands.h"
#include "cli/max/max_mode.h"

namespace ft::cli {
namespace {

using Clock = std::chrono::steady_clock;

using Json = nlohmann::ordered_json;

struct MaxOptions {
  OutputOptions output;
  bool install = false, on = false, off = false, status = false;
};

constexpr const char* kCommands[] = {"brew install ProducerGuy/tap/thermalforge",
                                     "sudo thermalforge install"};

Result<int> install(Terminal& terminal) {
#ifndef __APPLE__
  if (std::getenv("THERMALFORGE") == nullptr) return ThermalForge::find().error();
#endif
  terminal.out("Max mode uses ThermalForge, which runs a daemon as root. Its install commands:\n");
  for (const char* command : kCommands) terminal.out(fmt::format("  {}\n", command));
  if (::isatty(STDIN_FILENO) == 0) {
    terminal.out("run them yourself: there is no terminal to ask for confirmation\n");
    return 0;
  }
  terminal.out("run both now? [y/N] ");
  terminal.flush();
  std::string answer;
  if (!std::getline(std::cin, answer) || (answer != "y" && answer != "yes")) return 0;
  for (const char* command : kCommands) {
    if (std::system(command) != 0)  // NOLINT(*-env33-c): the two commands above, as the user saw them
      return Error{Code::kIo, fmt::format("Max mode: `{}` failed; see its output above", command)};
  }
  return 0;
}

/// The fans change their speed by about 400 rpm per second.
Status wait_until_fast(const ThermalForge& fans, Guard& guard) {
  constexpr auto kPause = std::chrono::milliseconds(100);
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (Clock::now() < end) {
    std::this_thread::sleep_for(kPause);
    if (::waitpid(guard.process, nullptr, WNOHANG) == guard.process) {
      guard.process = 0;
      return Error{Code::kIo,
                   "Max mode: its guard exited at once; check that foretoken's state folder is writable, and "
                   "try `thermalforge max` by hand"};
    }
    FT_ASSIGN(const std::vector<Fan> now, fans.status());
    if (are_ramped(now) && turn_fast(now)) return {};
  }
  return Error{Code::kIo,
               "Max mode: the fans did not reach 85 % of their maximum in 20 s; they are automatic "
               "again"};
}

Result<int> on(Terminal& terminal) {
  FT_ASSIGN(const ThermalForge fans, ThermalForge::find());
  FT_ASSIGN(const std::vector<Fan> found, fans.status());
  if (found.empty()) {
    return Error{Code::kUnsupported, "Max mode: this Mac has no fans"};
  }
  FT_ASSIGN(Guard guard, start_fan_guard(0, kIdleS));
  const Status fast = wait_until_fast(fans, guard);
  if (fast.ok()) {
    terminal.out("Max mode is on: the fans run at maximum for 15 minutes or until `foretoken max --off`\n");
    return 0;
  }
  if (guard.process > 0) ::kill(guard.process, SIGTERM);
  FT_TRY(fans.restore(kRestoreS));
  return fast.error();
}

Result<int> off(Terminal& terminal) {
  FT_ASSIGN(const ThermalForge fans, ThermalForge::find());
  FT_ASSIGN(const MaxMarker marker, MaxMarker::open());
  for (const MaxUser& user : marker.users().alive) {
    if (user.process != user.guard) {
      return Error{Code::kBusy,
                   fmt::format("Max mode: a server (process {}) keeps the fans at maximum; stop it "
                               "or start it without --max",
                               user.process)};
    }
    ::kill(user.guard, SIGTERM);
  }
  FT_TRY(fans.restore(kRestoreS));
  for (const MaxUser& user : marker.users().alive) FT_TRY(marker.remove(user.process));
  terminal.out("Max mode is off: the fans are automatic\n");
  return 0;
}

Result<int> status(const MaxOptions& options, Terminal& terminal) {
  FT_ASSIGN(const ThermalForge fans, ThermalForge::find());
  FT_ASSIGN(const std::vector<Fan> found, fans.status());
  FT_ASSIGN(const MaxMarker marker, MaxMarker::open());
  const std::vector<MaxUser> users = marker.users().alive;
  Json all = {{"users", users.size()}, {"fans", Json::array()}};
  std::string text = "Max mode is off\n";
  if (!users.empty()) {
    const std::int64_t since = std::ranges::min(users, {}, &MaxUser::since).since;
    all["since"] = since;
    text = fmt::format("Max mode is on for {} {}, since {} min\n", users.size(),
                       users.size() == 1 ? "process" : "processes",
                       std::max<std::int64_t>(0, std::time(nullptr) - since) / 60);
  }
  for (const Fan& fan : found) {
    all["fans"].push_back({{"rpm", fan.actual_rpm},
                           {"target_rpm", fan.target_rpm},
                           {"max_rpm", fan.max_rpm},
                           {"automatic", fan.automatic}});
    text += fmt::format("  fan  {} of {} rpm, asked for {}{}\n", fan.actual_rpm, fan.max_rpm, fan.target_rpm,
                        fan.automatic ? ", automatic" : "");
  }
  if (found.empty()) text += "  this Mac has no fans\n";
  terminal.out(options.output.json ? write_json(all) + "\n" : text);
  return 0;
}

Result<int> run_max(const MaxOptions& options, Terminal& terminal) {
  if (options.install + options.on + options.off + options.status > 1)
    return Error{Code::kInvalid, "max: give one of --install, --on, --off and --status"};
  if (options.install) return install(terminal);
  if (options.on) return on(terminal);
  if (options.off) return off(terminal);
  return status(options, terminal);
}

}  // namespace

Command max_command() {
  auto options = std::make_shared<MaxOptions>();
  Command command;
  command.name = "max";
  command.summary = "Run a Mac's fans at maximum (ThermalForge)";
  command.examples =
      "  foretoken max --install\n"
      "  foretoken max --on\n"
      "  foretoken serve --max\n";
  command.flags.group("Max mode");
  command.flags.add_switch("install", options->install,
                           "Show ThermalForge's own install commands, then run them");
  command.flags.add_switch("on", options->on, "Fans at maximum for 15 minutes or until --off");
  command.flags.add_switch("off", options->off, "Fans automatic again");
  command.flags.add_switch("status", options->status, "Show the fans (default)");
  return bind_options(std::move(command), std::move(options), run_max);
}

}  // namespace ft::cli
