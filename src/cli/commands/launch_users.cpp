#include "cli/commands/launch_users.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include "base/ascii.h"
#include "cli/library/state_folder.h"

namespace ft::cli {
namespace {

/// Returns when the launch that started this process has ended.
void await_starter() {
  char bytes[64];
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

}  // namespace

std::string launch_lock_file(const std::string& url) {
  const std::string folder = state_folder();
  if (folder.empty()) return {};
  const std::size_t scheme = url.find("://");
  const std::size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  std::string place = url.substr(host, url.find('/', host) - host);
  for (const std::string_view loopback : {"localhost:", "[::1]:"}) {
    if (place.starts_with(loopback)) place.replace(0, loopback.size(), "127.0.0.1:");
  }
  return fmt::format("{}/launch-{}.lock", folder, percent_encoded(place, false));
}

Result<LaunchLock> LaunchLock::take(const std::string& file, Kind kind) {
  LaunchLock lock;
  lock.file_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock.file_ < 0) return Error{Code::kIo, fmt::format("{}: {}", file, std::strerror(errno))};
  int failed = 0;
  do {
    failed = ::flock(lock.file_, (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB);
  } while (failed != 0 && errno == EINTR);
  if (failed == 0) return lock;
  if (errno != EWOULDBLOCK) return Error{Code::kIo, fmt::format("{}: {}", file, std::strerror(errno))};
  lock.release();
  return lock;
}

void LaunchLock::release() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void end_with_launches() {
  const char* variable = std::getenv(kLaunchVariable);
  if (variable == nullptr) return;
  std::thread([file = std::string(variable)] {
    constexpr auto kLook = std::chrono::milliseconds(200);
    await_starter();
    static LaunchLock alone;  // to the end of the process
    while (!file.empty()) {
      Result<LaunchLock> lock = LaunchLock::take(file, LaunchLock::Kind::kAlone);
      if (lock.ok() && lock->held()) alone = std::move(*lock);
      if (!lock.ok() || alone.held()) break;  // no launch can use a file that cannot be opened
      std::this_thread::sleep_for(kLook);
    }
    ::kill(::getpid(), SIGTERM);
  }).detach();
  ::unsetenv(kLaunchVariable);
}

}  // namespace ft::cli
