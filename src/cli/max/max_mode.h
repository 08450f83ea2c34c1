// Max mode of a server: fans at maximum while it is busy. The marker is on the disk and the guard runs before
// the fans are asked (cli/max/fan_guard.h). A thread reports the server's state to the guard and replaces a
// guard that died. Owner: `serve`; destruction restores the fans and waits for that, at most 5 s.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "cli/max/fan_guard.h"
#include "cli/max/thermalforge.h"

namespace ft::cli {

struct MaxModeOptions {
  double idle_s = kIdleS;
  std::function<bool()> busy;                      // asked every second
  std::function<void(const std::string&)> notice;  // a sentence, from the thread
};

class MaxMode {
 public:
  /// Errors of ThermalForge::find; kUnsupported for a Mac without fans; kIo if the fans do not follow.
  static Result<std::unique_ptr<MaxMode>> start(MaxModeOptions options);
  ~MaxMode();
  MaxMode(const MaxMode&) = delete;
  MaxMode& operator=(const MaxMode&) = delete;

 private:
  MaxMode(ThermalForge fans, MaxModeOptions options) : fans_(std::move(fans)), options_(std::move(options)) {}
  Status begin();
  void watch();
  void tell(char byte);
  Status renew_guard();
  void replace_guard(bool idle);
  /// The guard restores the fans and ends; waits for that, at most 5 s.
  void end_guard();

  ThermalForge fans_;
  MaxModeOptions options_;
  Guard guard_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// If all processes that kept the fans at maximum are dead, restores the fans. A sentence about it; empty:
/// nothing to do. Called before every command where ThermalForge::may_move_fans(). Cost: one file read.
std::string recover_fans();

}  // namespace ft::cli
