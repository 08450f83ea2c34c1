#include "cli/max/fan_guard.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <unistd.h>

#include "base/system.h"
#include "cli/max/thermalforge.h"

extern char** environ;

namespace ft::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> told_to_end{false};

void on_end(int) { told_to_end = true; }

class FanGuard {
 public:
  FanGuard(ThermalForge fans, MaxMarker marker, int owner, double idle_s)
      : fans_(std::move(fans)), marker_(std::move(marker)), owner_(owner), idle_s_(idle_s) {}

  int run() {
    if (owner_ == 0) {
      owner_ = ::getpid();
      alone_ = true;
    }
    if (!set_idle(false).ok() && alone_) return 1;  // without a marker no command would restore the fans
    if (alone_ && !fans_.max().ok()) return end();
    while (!told_to_end) {
      if (!alone_ && !hear()) break;
      if (alone_) ::poll(nullptr, 0, kLookMs);
      const double idle_for = std::chrono::duration<double>(Clock::now() - idle_since_).count();
      if ((idle_ || alone_) && !dropped_ && idle_for >= idle_s_) {
        if (alone_) break;
        drop();
      }
    }
    return end();
  }

 private:
  static constexpr int kLookMs = 200;

  /// Reads the server's bytes; false at the end of file.
  bool hear() {
    pollfd poll{STDIN_FILENO, POLLIN, 0};
    if (::poll(&poll, 1, kLookMs) <= 0) return true;
    char bytes[64];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    const bool idle = bytes[got - 1] == 'i';
    if (idle && !idle_) idle_since_ = Clock::now();
    idle_ = idle;
    if (!idle && dropped_) {
      dropped_ = false;
      (void)set_idle(false);
      (void)fans_.max();
    }
    return true;
  }

  void drop() {
    dropped_ = true;
    (void)set_idle(true);
    if (std::ranges::all_of(marker_.users().alive, &MaxUser::idle)) (void)fans_.automatic();
  }

  /// Only the last user restores the fans; a remaining marker makes the next command do it.
  int end() {
    std::vector<MaxUser> others = marker_.users().alive;
    std::erase_if(others, [this](const MaxUser& user) { return user.process == owner_; });
    const bool last = std::ranges::all_of(others, &MaxUser::idle);
    if (last && !fans_.restore(kRestoreS).ok()) return 1;
    return marker_.remove(owner_).ok() ? 0 : 1;
  }

  Status set_idle(bool idle) {
    const int self = ::getpid();
    return marker_.set({owner_, process_start(owner_), self, process_start(self), idle});
  }

  ThermalForge fans_;
  MaxMarker marker_;
  int owner_;
  double idle_s_;
  bool alone_ = false, idle_ = false, dropped_ = false;
  Clock::time_point idle_since_ = Clock::now();
};

}  // namespace

double fans_idle_s() {
  const char* const seconds = std::getenv("THERMALFORGE_IDLE_S");
  const double given = seconds == nullptr ? 0 : std::atof(seconds);
  return given > 0 ? given : kIdleS;
}

int run_fan_guard(int argc, const char* const* argv) {
  if (argc != 4) return 2;
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, on_end);
  Result<ThermalForge> fans = ThermalForge::find();
  Result<MaxMarker> marker = MaxMarker::open();
  if (!fans.ok() || !marker.ok()) return 1;
  return FanGuard(std::move(*fans), std::move(*marker), std::atoi(argv[2]), std::atof(argv[3])).run();
}

Result<Guard> start_fan_guard(int owner, double idle_s) {
  Guard guard;
  int ends[2] = {-1, -1};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (owner != 0 && !open_pipe(ends))
    return Error{Code::kIo, "Max mode: its guard cannot start (no pipe); close other programs"};
  if (owner != 0) ::posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  if (owner == 0) ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string program = program_path(), word = "fan-guard", who = std::to_string(owner),
              idle = fmt::format("{}", idle_s);
  char* arguments[] = {program.data(), word.data(), who.data(), idle.data(), nullptr};
  const int refused =
      ::posix_spawn(&guard.process, program.c_str(), &actions, &attributes, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (ends[0] >= 0) ::close(ends[0]);
  if (refused != 0) {
    if (ends[1] >= 0) ::close(ends[1]);
    return Error{Code::kIo, "Max mode: its guard does not start; the fans stay automatic"};
  }
  guard.start = process_start(guard.process);
  guard.pipe = ends[1];
  return guard;
}

}  // namespace ft::cli
