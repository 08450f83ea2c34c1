// Handles Ctrl-C: while an Interrupt lives, SIGINT and SIGTERM run `act` on its own thread instead of ending
// the program; a second signal ends it at once, unless it comes with the first one (timeout sends a signal to
// the program and again to its group). With `reload`, SIGHUP runs that instead of ending the program; but if
// the program's terminal is gone, SIGHUP counts as SIGTERM; a SIGHUP that was ignored before (nohup) stays
// ignored. Only one Interrupt may exist at a time. If no pipe can be opened, the signals keep their default.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ft::cli {

/// The message of a stopped command: "stopped; nothing was changed", or the bytes that a download keeps.
std::string stopped_text(std::int64_t kept_bytes = 0);

class Interrupt {
 public:
  explicit Interrupt(std::function<void()> act, std::function<void()> reload = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool happened() const { return happened_.load(); }
  /// Returns after a signal, once `act` has run.
  void wait();

 private:
  void watch();
  bool reloads() const;

  std::function<void()> act_, reload_;
  bool had_terminal_ = false, takes_hang_ups_ = false;
  std::atomic<bool> happened_{false};
  // std::atomic::wait would block signals under the thread sanitizer.
  std::mutex mutex_;
  std::condition_variable acted_;
  bool has_acted_ = false;
  int read_ = -1, write_ = -1;
  std::thread thread_;
};

}  // namespace ft::cli
