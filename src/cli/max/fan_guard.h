// The guard of Max mode: `foretoken fan-guard`, a process in a separate session that restores the fans
// however its server ends. Its standard input is a pipe whose only writer is the server: the end of file
// means that the server is gone. Bytes give the server's state: b is busy, i is idle. After 15 idle minutes
// the fans are automatic until it is busy again. It ignores SIGHUP and SIGINT; SIGTERM restores the fans
// first.
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/max/max_marker.h"

namespace ft::cli {

inline constexpr double kIdleS = 15 * 60, kRestoreS = 60;
/// kIdleS, or the variable THERMALFORGE_IDLE_S in tests.
double fans_idle_s();

/// The process that guards: `argv` of `foretoken fan-guard OWNER IDLE_S`; OWNER 0: it is its own, for `max
/// --on`. The exit status.
int run_fan_guard(int argc, const char* const* argv);

/// A running guard, seen from the process that started it.
struct Guard {
  int process = 0;
  std::int64_t start = 0;
  int pipe = -1;  // the only writing end; -1: the guard has no owner
};
/// kIo if no process can be started. owner 0: no server, for `max --on`.
Result<Guard> start_fan_guard(int owner, double idle_s);

}  // namespace ft::cli
