// Which launches use a server that one of them started: the server ends with the last. Each launch holds a
// shared lock on a file of the server's address; the system releases it however the launch ends. The server's
// stdin is a pipe of the launch that started it. Once that has ended, the server waits until it has the lock
// alone, and then stops. It keeps the lock to its end, so a launch that comes meanwhile waits for that end.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace ft::cli {

/// Tells `serve` that a launch started it; the value is the lock's file, empty for none.
inline constexpr const char* kLaunchVariable = "FORETOKEN_LAUNCH";

/// Empty without a state folder: then nobody shares the server.
std::string launch_lock_file(const std::string& url);

class LaunchLock {
 public:
  enum class Kind { kShared, kAlone };

  /// Not held if somebody else's lock excludes it. kIo if the file cannot be opened.
  static Result<LaunchLock> take(const std::string& file, Kind kind);
  LaunchLock() = default;
  LaunchLock(LaunchLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  LaunchLock& operator=(LaunchLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  LaunchLock(const LaunchLock&) = delete;
  LaunchLock& operator=(const LaunchLock&) = delete;
  ~LaunchLock() { release(); }

  bool held() const { return file_ >= 0; }
  void release();

 private:
  int file_ = -1;
};

/// In `serve`: if a launch started this process, sends it SIGTERM once no launch uses it any more.
void end_with_launches();

}  // namespace ft::cli
