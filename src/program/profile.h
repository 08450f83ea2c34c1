// Where the time of a step goes, for `foretoken bench decode --profile`. An executable that is compiled with
// a Profiler (CompileOptions::profiler) reports its operations to it. After each step it reports when every
// worker began and ended each operation, and when the barrier after it released the worker. Without a
// profiler a backend reads no clock; ref/ never reports. The profiler must outlive the executables. stepped()
// runs on the engine thread while no worker runs. Cost: three reads of the clock for each operation and
// worker.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ft {

class Program;

/// One operation of a backend: an instruction, or the backend's work before the first one.
struct ProfiledOperation {
  std::string_view name;  // instruction_name(), or the backend's word; a literal
  int instruction = -1;   // index into the program's list; -1: none
};

/// One worker in one operation; nanoseconds of the steady clock.
struct OperationTime {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;     // its own part is done
  std::int64_t left_ns = 0;    // all parts are done; on cpu a worker may do others' work in between
  std::int64_t waited_ns = 0;  // between begin and end, in barriers inside of the operation
};

struct ProfiledStep {
  int executable = 0;                     // what compiled() returned
  int rows = 0, logit_rows = 0;           // of the step
  std::int64_t begin_ns = 0, end_ns = 0;  // of the whole step
  std::span<const OperationTime> times;   // [workers of this step, operations]
};

class Profiler {
 public:
  virtual ~Profiler() = default;
  /// Called once by compile; the returned number names the executable in steps. `program` lives as long as
  /// the call. No step has more than `workers` workers.
  virtual int compiled(const Program& program, std::vector<ProfiledOperation> operations, int workers) = 0;
  virtual void stepped(const ProfiledStep& step) = 0;
};

}  // namespace ft
