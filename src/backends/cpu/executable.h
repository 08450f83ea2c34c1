// The cpu executable: a list of operations that all workers run together, with barriers where
// barrier_plan.h asks for them; a step takes no lock and allocates nothing. Each operation splits its work by
// rows, heads, channels or outputs. No split changes an element's arithmetic, so results depend neither on
// the number of workers nor on the rest of the step. Owner: the caller of compile. It shares the backend's
// pool, so one executable runs at a time. Thread: the engine thread (worker 0) calls run; the pool's workers
// join it.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/extra_head.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/pack/pack.h"
#include "backends/cpu/pack/packed_weights.h"
#include "backends/cpu/partition.h"
#include "backends/cpu/plan.h"
#include "backends/cpu/read_ahead.h"
#include "backends/cpu/state.h"
#include "backends/options.h"
#include "backends/walk.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "program/backend.h"

namespace ft::cpu {

/// A row matrix of the step.
struct Matrix {
  float* data = nullptr;  // [rows, width]
  std::int64_t width = 0;
  std::int64_t copy = 0;  // floats between per-worker copies in a small batch; 0: one copy

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
  std::uint64_t number = 0;           // of the executable's steps, from 1
  bool small_batch = false;           // a small batch: workers copy work instead of waiting (barrier_plan.h)
  std::int64_t* waited_ns = nullptr;  // [workers, kWaitStride]; null without a profiler

  /// The matrix as `worker` sees it.
  Matrix of(Matrix matrix, int worker) const {
    if (small_batch) matrix.data += worker * matrix.copy;
    return matrix;
  }

  static constexpr int kWaitStride = 8;  // a cache line for each worker
  /// A barrier inside an operation. `worker` is the caller.
  void barrier(int worker) const {
    if (waited_ns == nullptr) return pool->barrier();
    const std::int64_t arrived = steady_ns();
    pool->barrier();
    waited_ns[worker * kWaitStride] += steady_ns() - arrived;
  }
};

/// The minimum number of workers that share parts and prepare early: two would gain too little.
inline constexpr int kMinSharingWorkers = 3;

class Operation {
 public:
  virtual ~Operation() = default;
  /// Every worker calls it. In a large batch the executable puts a barrier after it, in a small batch only
  /// where the schedule asks for one.
  /// Steps may have different `workers`, at most BuildContext::workers.
  virtual void run(const Step& step, int worker, int workers) = 0;
  /// True if a worker that waits at the next barrier may do pieces of others' parts: help().
  virtual bool shares() const { return false; }
  /// `worker`, whose own part is done, does one piece of the part of `owner`, which may not have begun.
  /// False: no piece is left.
  virtual bool help(const Step& /*step*/, int /*worker*/, int /*owner*/, int /*workers*/) { return false; }
  /// Asks the operation to prepare its input, which workers write with this split, before the barrier in
  /// front of it: in steps of small batches with `workers` workers. False: it cannot.
  virtual bool prepare_early(int /*workers*/, Split /*split*/) { return false; }
  /// `worker` has just written its columns of the input.
  virtual void prepare_early(const Step& /*step*/, int /*worker*/, int /*workers*/) {}
  /// Weights whose blocks every worker reads in every step, in its order.
  virtual ReadAhead::Weights weights() const { return {}; }
};
using Operations = std::vector<std::unique_ptr<Operation>>;

/// cos and sin of one set of frequencies at the step's positions, shared by layers with equal frequencies.
struct Rotary {
  std::vector<float> frequencies;  // [half]
  std::vector<std::uint8_t> axes;  // [half] Attention::frequency_axes
  float scale = 1;
  std::vector<float> cosines, sines;  // [max_rows, half]
};

/// Results of a step for its caller.
struct StepOutputs {
  Matrix logits;
  std::array<Matrix, kMaxCaptures> captures;  // [Capture::number]
  std::vector<std::int32_t> ids;      // token of each logit column that never changes; empty: column v
  ExtraIdHead extra;                  // the other columns
  bool samples = false;               // the program ends in a token for each logit row
  std::vector<std::int32_t> sampled;  // [max_logit_rows]
  std::unique_ptr<Walker> walker;     // of its Walk; null: it has none
  Matrix factors;                     // Walk::factors, until the next step

  std::span<const std::int32_t> tokens() const {
    return extra.empty() ? std::span(ids) : std::span(extra.ids().ids());
  }
};

/// Inputs for making an operation.
struct BuildContext {
  const Program* program = nullptr;
  const BarrierPlan* barriers = nullptr;
  CompileOptions options;
  int workers = 1;     // maximum of a step
  bool int16 = false;  // 16-bit activations as two int8 values
  int pair_bytes = 0;  // of two columns of a row for bf16 weights
  std::byte* arena = nullptr;
  std::byte* scratch = nullptr;     // of this instruction, in the arena
  float* worker_scratch = nullptr;  // [workers, worker_floats]
  std::int64_t worker_floats = 0;
  std::vector<std::int64_t> row_offsets;  // by Row::id
  std::span<const Packed* const> packed;  // of this instruction's matrices, in order
  const Rotary* rotary = nullptr;         // of this instruction, if it rotates
  StepOutputs* outputs = nullptr;

  /// No place for a row that the instruction does not use.
  Matrix matrix(Row row) const {
    if (row.id < 0) return {};
    return {
        reinterpret_cast<float*>(arena + row_offsets[static_cast<std::size_t>(row.id)]), row.width,
        barriers->replicated(row.id) ? static_cast<std::int64_t>(row.width) * small_batch_rows(options) : 0};
  }
};

/// One operation of each instruction; null for instructions without work.
#define FT_DECLARE(Op) std::unique_ptr<Operation> make(const Op& op, const BuildContext& context);
FT_INSTRUCTIONS(FT_DECLARE)
#undef FT_DECLARE
std::unique_ptr<Operation> make_rotary(Rotary& rotary);

/// Memory that an instruction needs while it runs.
struct Needs {
  std::int64_t scratch_bytes = 0;  // together
  std::int64_t worker_floats = 0;  // of each worker
};
template <class Op>
Needs needs(const Op& /*op*/, const BuildContext& /*context*/) {
  return {};
}
Needs needs(const Linear& op, const BuildContext& context);
Needs needs(const Logits& op, const BuildContext& context);
Needs needs(const ClusterLogits& op, const BuildContext& context);
Needs needs(const TopKRouter& op, const BuildContext& context);
Needs needs(const MoeMlp& op, const BuildContext& context);
Needs needs(const Attention& op, const BuildContext& context);
Needs needs(const DeltaRule& op, const BuildContext& context);

/// A linear of one or more packed weights.
struct LinearParts {
  std::vector<const Packed*> weights;
  Matrix in;
  std::vector<Matrix> outs;      // one a weight
  bool logit_rows_only = false;  // the step's logit rows only, by which `outs` are then indexed
  float softcap = 0;             // Logits::softcap
};
std::unique_ptr<Operation> make_linear(LinearParts linear, const BuildContext& context);
std::int64_t linear_scratch_bytes(std::span<const Packed* const> weights, int max_rows,
                                  const BuildContext& context);

/// Resources that the executables of one backend share. `pool` and `kernels` must outlive them.
struct SharedResources {
  ThreadPool& pool;
  const Kernels& kernels;
  int activation_bits;  // 8 or 16
  const PackedCacheOptions& packed_cache;
  const PackProgress& progress;
  const std::shared_ptr<SharedWeights>& weights;  // packed for other programs
  const int& small_batch_workers;                 // maximum workers of a small batch; it may change
  int memory_nodes;                               // to which the workers' cores belong
};
Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            const SharedResources& shared);

}  // namespace ft::cpu
