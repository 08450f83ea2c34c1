// The cpu executable: a list of operations that all workers walk together and meet where
// schedule.h asks for it, no allocation and no lock in a step. Each operation splits its work by rows, heads,
// channels or outputs; none of the splits changes an element's arithmetic, so results depend neither on the
// number of workers nor on what else is in the step. Owner: the caller of compile; it shares the backend's
// pool, so one executable runs at a time. Thread: the engine thread (worker 0) calls run; the pool's workers
// join it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pack.h"
#include "backends/cpu/packed_weights.h"
#include "backends/cpu/plan.h"
#include "backends/cpu/share.h"
#include "backends/cpu/state.h"
#include "backends/registry.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "program/backend.h"

namespace ft::cpu {

/// A row matrix of the step.
struct Matrix {
  float* data = nullptr;  // [rows, width]
  std::int64_t width = 0;
  std::int64_t copy = 0;  // floats from worker to worker, where a short step has one copy each; else 0

  float* row(std::int64_t index) const { return data + index * width; }
};

/// Everything an operation may touch during one step.
struct Step {
  const StepArgs* args = nullptr;
  const CpuState* state = nullptr;
  const Kernels* kernels = nullptr;
  ThreadPool* pool = nullptr;
  const std::int32_t* tokens = nullptr;     // [rows], resolved
  const std::int64_t* positions = nullptr;  // [rows]
  int rows = 0;
  bool few = false;                   // a short step: workers copy work instead of waiting (schedule.h)
  std::int64_t* waited_ns = nullptr;  // [workers, kWaitStride]; null: nobody measures

  /// The matrix as `worker` sees it.
  Matrix of(Matrix matrix, int worker) const {
    if (few) matrix.data += worker * matrix.copy;
    return matrix;
  }

  static constexpr int kWaitStride = 8;  // a cache line for each worker
  /// Where an operation's workers meet inside of it. `worker` is the caller.
  void barrier(int worker) const {
    if (waited_ns == nullptr) return pool->barrier();
    const std::int64_t arrived = steady_ns();
    pool->barrier();
    waited_ns[worker * kWaitStride] += steady_ns() - arrived;
  }
};

class Operation {
 public:
  virtual ~Operation() = default;
  /// Called by every worker. The executable puts a barrier after it in a long step, and in a short one where
  /// the schedule asks for it.
  virtual void run(const Step& step, int worker, int workers) = 0;
};
using Operations = std::vector<std::unique_ptr<Operation>>;

/// What the makers of operations are given.
struct Parts {
  const Program* program = nullptr;
  const Schedule* schedule = nullptr;
  CompileOptions options;
  int workers = 1;
  bool halves = false;  // activations of 16 bits as two 8-bit halves
  int pair_bytes = 0;   // of two columns of a row for bf16 weights
  std::byte* arena = nullptr;
  std::byte* scratch = nullptr;     // of this instruction, in the arena
  float* worker_scratch = nullptr;  // [workers, worker_floats]
  std::int64_t worker_floats = 0;
  std::vector<std::int64_t> row_offsets;  // by Row::id

  Matrix matrix(Row row) const {
    return {reinterpret_cast<float*>(arena + row_offsets[static_cast<std::size_t>(row.id)]), row.width,
            schedule->own(row.id) ? static_cast<std::int64_t>(row.width) * few_rows(options) : 0};
  }
};

/// cos and sin of one set of frequencies at the step's positions, shared by the layers that rotate alike.
struct Rotary {
  std::vector<float> frequencies;  // [half]
  float scale = 1;
  std::vector<float> cosines, sines;  // [max_rows, half]
};

std::unique_ptr<Operation> make_norm(const Norm& op, const Parts& parts);
std::unique_ptr<Operation> make_gated_norm(const GatedNorm& op, const Parts& parts);
std::unique_ptr<Operation> make_embed(const Embed& op, const Parts& parts);
std::unique_ptr<Operation> make_input(const Input& op, const Parts& parts);
std::unique_ptr<Operation> make_swiglu(const Swiglu& op, const Parts& parts);
std::unique_ptr<Operation> make_geglu(const Geglu& op, const Parts& parts);
std::unique_ptr<Operation> make_add(const Add& op, const Parts& parts);
std::unique_ptr<Operation> make_concat(const Concat& op, const Parts& parts);
std::unique_ptr<Operation> make_conv(const Conv& op, const Parts& parts);
std::unique_ptr<Operation> make_rotary(Rotary& rotary);
std::unique_ptr<Operation> make_attend(const Attend& op, const Rotary* rotary, const Parts& parts);
std::unique_ptr<Operation> make_delta_rule(const DeltaRule& op, const Parts& parts);

/// A linear of one or more packed weights; rows: null for all rows of the step, else the step's wanted rows,
/// and `outs` are then indexed by wanted row.
std::unique_ptr<Operation> make_linear(const std::vector<const Packed*>& weights, Matrix in,
                                       std::vector<Matrix> outs, bool wanted_only, const Parts& parts);
std::int64_t linear_scratch_bytes(const std::vector<const Packed*>& weights, int max_rows,
                                  const Parts& parts);
std::int64_t attend_scratch_bytes(const Attend& op, int max_rows);
/// Floats that one worker needs for `op` beside the arena.
std::int64_t attend_worker_floats(const Attend& op);
std::int64_t delta_worker_floats(const DeltaRule& op);

/// What the executables of one backend share; `pool` and `kernels` must outlive them.
struct Machinery {
  ThreadPool& pool;
  const Kernels& kernels;
  int activation_bits;  // 8 or 16
  const PreparedOptions& prepared;
  const PackProgress& progress;
  SharedWeights& weights;  // packed for other programs
};
Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            const Machinery& machinery);

}  // namespace ft::cpu
