// Ctrl-C as a call: while an Interrupt lives, SIGINT and SIGTERM run `act` on a thread of their own instead
// of ending the program; a second signal ends it at once. Owner: the function that wants it; at most one at a
// time. Thread: act runs on the watcher's. Cost: a thread and a pipe. Errors: none; without a pipe the
// signals keep their default.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ft::cli {

class Interrupt {
 public:
  explicit Interrupt(std::function<void()> act);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool happened() const { return happened_.load(); }
  /// Returns once it has happened and `act` has run.
  void wait();

 private:
  void watch();

  std::function<void()> act_;
  std::atomic<bool> happened_{false};
  // Not an atomic's wait: the thread sanitizer delivers no signal to a thread in there.
  std::mutex mutex_;
  std::condition_variable acted_;
  bool has_acted_ = false;
  int read_ = -1, write_ = -1;
  std::thread thread_;
};

}  // namespace ft::cli
