// ThermalForge, the program that controls a Mac's fans (thermalforge status | max | auto). Its root daemon
// answers at a socket; foretoken never requests root and installs no sudoers rule. Thread: any. Cost: a child
// process a call, at most 3 s. Errors: kUnsupported except on macOS, kNotFound without the tool or
// its daemon, kInvalid for a socket that is not root's, kIo for a tool that fails, hangs or speaks garbage.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct Fan {
  int actual_rpm = 0, target_rpm = 0, max_rpm = 0;
  bool automatic = true;
};

class ThermalForge {
 public:
  /// Whether this machine may have fans to move: a Mac, or a test that names a program.
  static bool may_move_fans();
  /// The variable THERMALFORGE names another program, and THERMALFORGE_SOCKET another socket: for tests.
  static Result<ThermalForge> find();

  Result<std::vector<Fan>> status() const;
  /// kInvalid for a Mac without fans.
  Status max() const { return command("max"); }
  Status automatic() const { return command("auto"); }
  /// `auto`, confirmed by every fan; tries again with growing pauses for `limit_s`.
  Status restore(double limit_s) const;

 private:
  explicit ThermalForge(std::string program) : program_(std::move(program)) {}
  Status command(const char* word) const;
  Result<std::string> answer(const char* word) const;

  std::string program_;
};

/// From the JSON of `thermalforge status`.
Result<std::vector<Fan>> read_fans(const std::string& text);
/// Every fan is asked for at least 85 % of its maximum.
bool are_ramped(const std::vector<Fan>& fans);
/// Every fan turns at 85 % of its maximum or faster.
bool turn_fast(const std::vector<Fan>& fans);

}  // namespace ft::cli
