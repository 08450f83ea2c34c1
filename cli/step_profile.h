// Steps as a backend reported them (program/profile.h), summed up by instruction and number of rows, and the
// last of them as a trace for chrome://tracing or Perfetto. Owner: who measures. Thread: the engine thread
// reports, the same thread reads. Cost: a few additions an operation; memory of the trace is bounded
// (kTraceEvents). No errors.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "program/profile.h"

namespace ft::cli {

/// One line of a table: all instructions of a program with the same label.
struct ProfileLine {
  std::string label;
  std::int64_t calls = 0;
  double ms = 0;          // from begin to the end of the barrier, on average over the workers
  double barrier_ms = 0;  // of that, spent waiting
  double bytes = 0;       // of all calls
};

struct ProfileTable {
  int executable = 0, rows = 0;
  std::int64_t steps = 0;
  double step_ms = 0;              // all steps together, the call of run() included
  std::vector<ProfileLine> lines;  // the longest first
};

class StepProfile final : public Profiler {
 public:
  static constexpr std::size_t kTraceEvents = 200000;

  int compiled(const Program& program, std::vector<ProfiledOperation> operations, int workers) override;
  void stepped(const ProfiledStep& step) override;

  /// Tables in the order of executables and rows.
  std::vector<ProfileTable> tables() const;
  /// {"traceEvents": [...]}: one track a worker and executable, waiting as events of its own.
  std::string trace_json() const;

 private:
  struct Target {
    std::vector<std::string> labels;  // by operation
    std::vector<double> bytes;        // by operation
    std::vector<bool> of_wanted;      // by operation: idle in a step without wanted rows
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

}  // namespace ft::cli
