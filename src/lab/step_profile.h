// Steps as a backend reports them (program/profile.h), summed by instruction and row count, and the last ones
// as a trace for chrome://tracing or Perfetto. The engine thread both writes and reads. kTraceEvents bounds
// the memory of the trace.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "program/profile.h"

namespace ft {

/// One line of a table: all instructions of a program with the same label.
struct ProfileLine {
  std::string label;
  std::int64_t calls = 0;
  double ms = 0;          // from start to the end of the barrier, mean over the workers
  double barrier_ms = 0;  // part of it spent waiting
  double bytes = 0;       // over all calls
};

struct ProfileTable {
  int executable = 0, rows = 0;
  std::int64_t steps = 0;
  double step_ms = 0;              // all steps together, with the call of run()
  std::vector<ProfileLine> lines;  // longest first
};

class StepProfile final : public Profiler {
 public:
  static constexpr std::size_t kTraceEvents = 200000;

  int compiled(const Program& program, std::vector<ProfiledOperation> operations, int workers) override;
  void stepped(const ProfiledStep& step) override;

  /// Tables in the order of executables and rows.
  std::vector<ProfileTable> tables() const;
  /// {"traceEvents": [...]}: one track per worker and executable, with waits as separate events.
  std::string trace_json() const;

 private:
  struct Target {
    std::vector<std::string> labels;  // by operation
    std::vector<double> bytes;        // by operation
    std::vector<bool> of_logit_rows;  // by operation: idle in a step without logit rows
    int workers = 1;
  };
  struct Sums {
    std::int64_t steps = 0;
    double step_ns = 0;
    std::vector<double> ns, barrier_ns, bytes;  // by operation
  };
  struct Event {
    int executable, rows, operation, worker;
    OperationTime time;
  };
  std::vector<Target> targets_;
  std::map<std::pair<int, int>, Sums> sums_;  // by executable and rows
  std::deque<Event> trace_;
};

/// "instruction  calls  ms/step ..." with the step's sum below.
std::string profile_text(const ProfileTable& table);

}  // namespace ft
