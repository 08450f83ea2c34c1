#include "cli/max/thermalforge.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/json.h"
#include "base/system.h"

extern char** environ;

namespace ft::cli {
namespace {

using Clock = std::chrono::steady_clock;
using SortedJson = nlohmann::json;

constexpr double kRamped = 0.85;
constexpr auto kPatience = std::chrono::seconds(3);
constexpr std::size_t kMaxAnswer = 65536;
constexpr const char* kInstall = "run `foretoken max --install`";

std::string variable_or(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

/// Where Homebrew puts it, else wherever PATH finds it.
std::string tool() {
  std::string named = variable_or("THERMALFORGE", "");
  if (!named.empty()) return named;
  for (const char* place : {"/opt/homebrew/bin/thermalforge", "/usr/local/bin/thermalforge"}) {
    if (::access(place, X_OK) == 0) return place;
  }
  return {};
}

Status check_socket(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0)
    return Error{Code::kNotFound, fmt::format("Max mode: ThermalForge's daemon does not run; {}", kInstall)};
  if (S_ISSOCK(facts.st_mode) && facts.st_uid == 0) return {};
  return Error{
      Code::kInvalid,
      fmt::format(
          "Max mode: {} is not a socket owned by root, so another program may answer there; remove it and {}",
          path, kInstall)};
}

/// Reads until the end, the limit or the deadline. False at the deadline.
bool read_all(int file, Clock::time_point deadline, std::string& text) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd poll{file, POLLIN, 0};
    if (::poll(&poll, 1, static_cast<int>(left)) <= 0) continue;
    char bytes[4096];
    const ssize_t got = ::read(file, bytes, sizeof bytes);
    if (got <= 0 || text.size() > kMaxAnswer) return true;
    text.append(bytes, static_cast<std::size_t>(got));
  }
}

/// Whether the child ends before the deadline; then `status` is its own.
bool ends(pid_t child, Clock::time_point deadline, int& status) {
  constexpr auto kLook = std::chrono::milliseconds(5);
  while (Clock::now() < deadline) {
    if (::waitpid(child, &status, WNOHANG) == child) return true;
    std::this_thread::sleep_for(kLook);
  }
  return false;
}

int rpm(const SortedJson& fan, const char* name) {
  const auto found = fan.find(name);
  return found != fan.end() && found->is_number() ? static_cast<int>(found->get<double>()) : 0;
}

}  // namespace

bool ThermalForge::may_move_fans() {
#ifdef __APPLE__
  return true;
#else
  return std::getenv("THERMALFORGE") != nullptr;
#endif
}

Result<ThermalForge> ThermalForge::find() {
  const std::string program = tool();
  if (!may_move_fans()) {
    return Error{Code::kUnsupported,
                 "Max mode needs a Mac; `foretoken doctor` shows this machine's power and clocks"};
  }
  if (program.empty() || ::access(program.c_str(), X_OK) != 0)
    return Error{Code::kNotFound, fmt::format("Max mode: ThermalForge is not installed; {}", kInstall)};
  FT_TRY(check_socket(variable_or("THERMALFORGE_SOCKET", "/tmp/thermalforge.sock")));
  return ThermalForge(program);
}

Result<std::string> ThermalForge::answer(const char* word) const {
  int ends_of_pipe[2];
  if (!open_pipe(ends_of_pipe))
    return Error{Code::kIo, "Max mode: thermalforge cannot start (no pipe); close other programs"};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends_of_pipe[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program_, argument = word;
  char* arguments[] = {name.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int refused = ::posix_spawn(&child, program_.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends_of_pipe[1]);
  const auto deadline = Clock::now() + kPatience;
  std::string text;
  int status = 0;
  const bool done =
      refused == 0 && read_all(ends_of_pipe[0], deadline, text) && ends(child, deadline, status);
  ::close(ends_of_pipe[0]);
  if (done && WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (refused == 0 && !done) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return Error{Code::kIo, fmt::format("Max mode: `thermalforge {}` {}; check it by hand: {} {}", word,
                                      refused != 0 ? "does not start"
                                      : !done      ? "did not answer in 3 s"
                                                   : "failed",
                                      program_, word)};
}

Status ThermalForge::command(const char* word) const {
  FT_ASSIGN(const std::string text, answer(word));
  if (!text.starts_with("error")) return {};
  return Error{Code::kIo, fmt::format("Max mode: thermalforge refuses `{}`: {}; {}", word,
                                      text.substr(0, text.find('\n')), kInstall)};
}

Result<std::vector<Fan>> ThermalForge::status() const {
  FT_ASSIGN(const std::string text, answer("status"));
  return read_fans(text);
}

Status ThermalForge::restore(double limit_s) const {
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  std::chrono::milliseconds pause{50};
  for (;;) {
    Status done = automatic();
    if (done.ok()) {
      const Result<std::vector<Fan>> fans = status();
      if (!fans.ok())
        done = fans.error();
      else if (!std::ranges::all_of(*fans, &Fan::automatic))
        done =
            Error{Code::kIo,
                  "Max mode: the fans did not return to automatic after `thermalforge auto`; run it by hand"};
    }
    if (done.ok() || Clock::now() + pause > end) return done;
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

Result<std::vector<Fan>> read_fans(const std::string& text) {
  const SortedJson status = read_json<SortedJson>(text);
  const auto garbage = [] {
    return Error{Code::kIo, "Max mode: `thermalforge status` gives no list of fans; update ThermalForge"};
  };
  if (!status.is_object() || !status.contains("fans") || !status["fans"].is_array()) return garbage();
  std::vector<Fan> fans;
  for (const SortedJson& fan : status["fans"]) {
    if (!fan.is_object() || rpm(fan, "max_rpm") <= 0) return garbage();
    const auto mode = fan.find("mode");
    const bool automatic = mode != fan.end() && mode->is_string() && mode->get<std::string>() == "auto";
    fans.push_back({rpm(fan, "actual_rpm"), rpm(fan, "target_rpm"), rpm(fan, "max_rpm"), automatic});
  }
  return fans;
}

bool are_ramped(const std::vector<Fan>& fans) {
  return std::ranges::all_of(fans, [](const Fan& fan) { return fan.target_rpm >= kRamped * fan.max_rpm; });
}

bool turn_fast(const std::vector<Fan>& fans) {
  return std::ranges::all_of(fans, [](const Fan& fan) { return fan.actual_rpm >= kRamped * fan.max_rpm; });
}

}  // namespace ft::cli
