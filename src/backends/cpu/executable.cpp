#include "backends/cpu/executable.h"

#include <algorithm>
#include <fmt/format.h>

#include "backends/cpu/denormals.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pack/packed_weights.h"
#include "backends/host_rows.h"
#include "base/assert.h"
#include "base/clock.h"
#include "format/out_of_memory.h"
#include "program/check.h"

namespace ft::cpu {
namespace {

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const Program& program, const CompileOptions& options, const SharedResources& shared)
      : options_(options),
        pool_(shared.pool),
        kernels_(shared.kernels),
        small_batch_workers_(shared.small_batch_workers),
        packed_(shared.weights) {
    context_.program = &program;
    context_.options = options;
    context_.workers = pool_.workers();
    context_.int16 = shared.activation_bits == 16;
    context_.pair_bytes = context_.int16 ? kExactPairBytes : kernels_.pair_bytes;
  }

  /// The part of construction that may fail.
  Status build(const SharedResources& shared) {
    const auto& instructions = context_.program->instructions();
    barriers_ = std::make_unique<BarrierPlan>(*context_.program, context_.workers);
    context_.barriers = barriers_.get();
    context_.outputs = &outputs_;
    for (const Instruction& instruction : instructions) FT_TRY(gather(instruction));
    FT_TRY(packed_.fill(pool_, shared.packed_cache, shared.progress, shared.memory_nodes));
    for (std::size_t i = 0; i < packed_count_; ++i) matrices_.push_back(packed_.at(i));
    FT_TRY(place());
    for (const Instruction& instruction : instructions) {
      context_.scratch = arena_.data() + plan_->scratch_offset(number_);
      choose_parts(number_);
      add(std::visit([this](const auto& op) { return make(op, context_); }, instruction));
      ++number_;
    }
    profile();
    find_barriers();
    find_shared();
    find_early();
    plan_reading_ahead();
    tokens_.resize(static_cast<std::size_t>(options_.max_rows));
    positions_.resize(static_cast<std::size_t>(options_.max_rows));
    outputs_.sampled.resize(static_cast<std::size_t>(options_.max_logit_rows));
    context_.program = nullptr;
    return {};
  }

  StepResult run(const StepArgs& args, State& state) override {
    const std::int64_t begin_ns = times_.empty() ? 0 : steady_ns();
    Step step;
    step.args = &args;
    step.state = static_cast<const CpuState*>(&state);
    step.kernels = &kernels_;
    step.pool = &pool_;
    step.tokens = tokens_.data();
    step.positions = positions_.data();
    step.waited_ns = times_.empty() ? nullptr : waited_ns_.data();
    for (const Segment& segment : args.segments) {
      FT_ASSERT(step.rows + segment.rows <= options_.max_rows);
      FT_ASSERT(segment.rows - segment.confirmed <= kMaxTapeRows);
      for (int r = 0; r < segment.rows; ++r)
        positions_[static_cast<std::size_t>(step.rows++)] = segment.position + r;
    }
    FT_ASSERT(static_cast<int>(args.logit_rows.size()) <= options_.max_logit_rows);
    for (std::size_t r = 0; r < args.tokens.size(); ++r) tokens_[r] = resolved(args, args.tokens[r]);
    if (outputs_.walker) logit_rows_.assign(args.logit_rows.begin(), args.logit_rows.end());
    step.small_batch = step.rows <= kSmallBatchRows;
    step.number = ++steps_;
    auto walk = [this, &step](int worker, int workers) {
      const FlushDenormals flush;
      if (!times_.empty()) return walk_timed(step, worker, workers);
      for (std::size_t i = 0; i < operations_.size(); ++i) {
        run_operation(step, i, worker, workers);
        if (has_barrier_after(i, step.small_batch, workers)) barrier_after(step, i, worker, workers);
      }
    };
    pool_.run(walk, step.small_batch ? small_batch_workers_ : context_.workers);
    if (!times_.empty()) tell_profiler(step, begin_ns);
    StepResult result;
    const auto logit_rows = args.logit_rows.size();
    const Matrix& logits = outputs_.logits;
    if (args.logits) result.logits = {logits.data, logit_rows * static_cast<std::size_t>(logits.width)};
    if (outputs_.samples) result.sampled = {outputs_.sampled.data(), args.samples.size()};
    for (std::size_t i = 0; i < kMaxCaptures && outputs_.captures[i].width > 0; ++i)
      capture_rows(args.capture, static_cast<int>(i), outputs_.captures[i].data);
    return result;
  }

  int vocabulary() const override { return static_cast<int>(outputs_.logits.width); }
  std::span<const std::int32_t> ids() const override { return outputs_.tokens(); }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override {
    if (!outputs_.extra.empty()) outputs_.extra.add(tokens);
  }
  void walk_candidates(std::size_t row, std::int32_t predecessor, std::span<const std::uint32_t> mask,
                       WalkCandidates& out) const override {
    const std::span<const float> logits(outputs_.logits.row(static_cast<std::int64_t>(row)),
                                        static_cast<std::size_t>(outputs_.logits.width));
    const float* factors =
        outputs_.factors.data == nullptr ? nullptr : outputs_.factors.row(logit_rows_[row]);
    const FlushDenormals exact(false);
    outputs_.walker->candidates(logits, outputs_.tokens(), mask, factors, predecessor, out);
  }
  std::int64_t packed_bytes() const override { return packed_.bytes() + outputs_.extra.bytes(); }

 private:
  // ---- first pass: what must be packed and rotated ----

  Status gather(const Instruction& instruction) {
    const int max_weight_bits = context_.program->max_weight_bits();
    first_packed_.push_back(packed_count_);
    const auto* logits = std::get_if<Logits>(&instruction);
    struct Matrices final : Describer {
      void matrix(const Weight& weight, std::int64_t, std::int64_t, std::int64_t) override {
        found.push_back(weight);
      }
      std::vector<Weight> found;
    } matrices;
    describe(instruction, matrices);
    for (const Weight& weight : matrices.found) {
      FT_TRY(packed_.add(weight, logits != nullptr ? logits->ids : std::vector<std::int32_t>(),
                         max_weight_bits));
    }
    packed_count_ += matrices.found.size();
    if (logits != nullptr) FT_TRY(outputs_.extra.make(*logits, max_weight_bits));
    if (const auto* attend = std::get_if<Attention>(&instruction)) add_rotary(*attend);
    return {};
  }

  /// Chooses the places and memory of instruction `number`.
  void choose_parts(int number) {
    const auto at = static_cast<std::size_t>(number);
    const Instruction& instruction = context_.program->instructions()[at];
    const std::size_t end = at + 1 < first_packed_.size() ? first_packed_[at + 1] : packed_count_;
    context_.packed = std::span(matrices_).subspan(first_packed_[at], end - first_packed_[at]);
    const auto* attend = std::get_if<Attention>(&instruction);
    context_.rotary = attend != nullptr ? find_rotary(*attend) : nullptr;
  }

  void add_rotary(const Attention& op) {
    if (op.rotary == 0 || find_rotary(op) != nullptr) return;
    const std::size_t size = op.inverse_frequencies.size() * static_cast<std::size_t>(options_.max_rows);
    rotaries_.push_back(
        std::make_unique<Rotary>(Rotary{op.inverse_frequencies, op.frequency_axes, op.rotary_scale,
                                        std::vector<float>(size), std::vector<float>(size)}));
    operations_.push_back(make_rotary(*rotaries_.back()));
  }

  const Rotary* find_rotary(const Attention& op) const {
    for (const std::unique_ptr<Rotary>& rotary : rotaries_) {
      if (rotary->frequencies == op.inverse_frequencies && rotary->axes == op.frequency_axes &&
          rotary->scale == op.rotary_scale)
        return rotary.get();
    }
    return nullptr;
  }

  // ---- second pass: where the activations are ----

  Status place() {
    std::vector<std::int64_t> scratch;
    Matrix& logits = outputs_.logits;
    const auto& instructions = context_.program->instructions();
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      const Instruction& instruction = instructions[static_cast<std::size_t>(i)];
      choose_parts(i);
      const Needs of = std::visit([this](const auto& op) { return needs(op, context_); }, instruction);
      scratch.push_back(of.scratch_bytes);
      context_.worker_floats = std::max(context_.worker_floats, of.worker_floats);
      if (const auto* op = std::get_if<Logits>(&instruction)) logits.width = op->columns();
      if (const auto* op = std::get_if<ClusterLogits>(&instruction)) logits.width = op->table.rows;
    }
    plan_ = std::make_unique<Plan>(*context_.program, *barriers_, options_, context_.workers, scratch);
    const std::int64_t worker_bytes = round_up(context_.worker_floats, kLanes) * 4;
    const std::int64_t logit_bytes = round_up(logits.width * options_.max_logit_rows * 4, 64);
    const std::int64_t total = round_up(plan_->bytes(), 64) + worker_bytes * context_.workers + logit_bytes;
    arena_ = Memory::allocate(total);
    if (arena_.empty()) {
      return Error{
          Code::kExhausted,
          fmt::format("cpu backend: no memory for {:.2f} GB of activations ({} rows a step); use a smaller "
                      "prompt chunk",
                      static_cast<double>(total) * 1e-9, options_.max_rows)};
    }
    context_.arena = arena_.data();
    context_.worker_floats = round_up(context_.worker_floats, kLanes);
    std::byte* after_rows = arena_.data() + round_up(plan_->bytes(), 64);
    logits.data = reinterpret_cast<float*>(after_rows);
    context_.worker_scratch = reinterpret_cast<float*>(after_rows + logit_bytes);
    for (int id = 0; id < context_.program->row_count(); ++id)
      context_.row_offsets.push_back(plan_->row_offset(id));
    return {};
  }

  /// The pool itself waits for all workers after the last operation.
  void find_barriers() {
    const std::size_t rotaries = operations_.size() - made_for_.size();
    barrier_after_.assign(barriers_->plans(), std::vector<bool>(operations_.size(), false));
    for (int workers = 1; workers <= context_.workers; ++workers) {
      std::vector<bool>& after = barrier_after_[barriers_->plan_of(workers)];
      for (std::size_t i = 0; i + 1 < made_for_.size(); ++i)
        after[rotaries + i] =
            barriers_->phase(made_for_[i], workers) != barriers_->phase(made_for_[i + 1], workers);
    }
  }

  /// By plan and operation before a barrier of a small batch: the operations since the last barrier whose
  /// parts are shared. In a large batch that is the operation alone.
  void find_shared() {
    alone_.assign(operations_.size(), {});
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i]->shares()) alone_[i].push_back(operations_[i].get());
    }
    shared_.assign(barriers_->plans(), std::vector<std::vector<Operation*>>(operations_.size()));
    for (std::size_t plan = 0; plan < shared_.size(); ++plan) {
      std::size_t phase = 0;  // its first operation
      for (std::size_t i = 0; i + 1 < operations_.size(); ++i) {
        if (!barrier_after_[plan][i]) continue;
        for (; phase <= i; ++phase) {
          if (operations_[phase]->shares()) shared_[plan][i].push_back(operations_[phase].get());
        }
      }
    }
  }

  /// By plan and operation: linears after the next barrier that prepare the columns it writes.
  void find_early() {
    early_.assign(barriers_->plans(), std::vector<std::vector<Operation*>>(operations_.size()));
    const auto& instructions = context_.program->instructions();
    const std::size_t rotaries = operations_.size() - made_for_.size();
    std::vector<bool> planned(barriers_->plans(), false);
    for (int workers = 1; workers <= context_.workers; ++workers) {
      const std::size_t plan = barriers_->plan_of(workers);
      struct Written {
        std::size_t at = 0;  // in made_for_
        Split split;
      };
      std::vector<Written> written(static_cast<std::size_t>(context_.program->row_count()) + 1);
      for (std::size_t i = 0; i < made_for_.size(); ++i) {
        const Instruction& instruction = instructions[static_cast<std::size_t>(made_for_[i])];
        if (const auto* linear = std::get_if<Linear>(&instruction)) {
          const Written& from = written[static_cast<std::size_t>(linear->in.id)];
          const bool by_columns =
              from.split.kind == Split::Kind::kColumns || from.split.kind == Split::Kind::kHeads;
          if (by_columns &&
              barriers_->phase(made_for_[from.at], workers) != barriers_->phase(made_for_[i], workers) &&
              operations_[rotaries + i]->prepare_early(workers, from.split) && !planned[plan]) {
            early_[plan][rotaries + from.at].push_back(operations_[rotaries + i].get());
          }
        }
        for (const Operands::Operand& write : operands(*context_.program, instruction, workers).writes)
          written[static_cast<std::size_t>(write.row.id)] = {i, write.split};
      }
      planned[plan] = planned[plan] || workers >= kMinSharingWorkers;
    }
  }

  void run_operation(const Step& step, std::size_t operation, int worker, int workers) {
    operations_[operation]->run(step, worker, workers);
    if (!step.small_batch || workers < kMinSharingWorkers) return;
    for (Operation* linear : early_[barriers_->plan_of(workers)][operation])
      linear->prepare_early(step, worker, workers);
  }

  bool has_barrier_after(std::size_t operation, bool small_batch, int workers) const {
    return operation + 1 < operations_.size() &&
           (!small_batch || barrier_after_[barriers_->plan_of(workers)][operation]);
  }

  void plan_reading_ahead() {
    std::vector<ReadAhead::Weights> weights;
    for (const std::unique_ptr<Operation>& operation : operations_) weights.push_back(operation->weights());
    read_ahead_.plan(std::move(weights), context_.workers);
  }

  /// A worker that waits does pieces of other workers' parts, one at a time, then reads ahead.
  void barrier_after(const Step& step, std::size_t operation, int worker, int workers) {
    const std::vector<Operation*>& shared =
        step.small_batch ? shared_[barriers_->plan_of(workers)][operation] : alone_[operation];
    std::size_t at = workers > 1 ? 0 : shared.size();
    int next = 1;  // the owner's distance from this worker
    pool_.barrier([&] {
      if (at == shared.size()) return read_ahead_.fetch(operation, worker, workers);
      if (!shared[at]->help(step, worker, (worker + next) % workers, workers) && ++next == workers) {
        next = 1;
        ++at;
      }
      return true;
    });
  }

  // ---- profiling: the clock is read only if the caller gave a profiler ----

  void profile() {
    if (options_.profiler == nullptr) return;
    std::vector<ProfiledOperation> list(operations_.size() - made_for_.size(), {"rotary", -1});
    for (const int instruction : made_for_) {
      list.push_back(
          {instruction_name(context_.program->instructions()[static_cast<std::size_t>(instruction)]),
           instruction});
    }
    times_.resize(operations_.size() * static_cast<std::size_t>(context_.workers));
    waited_ns_.resize(static_cast<std::size_t>(context_.workers) * Step::kWaitStride);
    profiled_as_ = options_.profiler->compiled(*context_.program, std::move(list), context_.workers);
  }

  void walk_timed(const Step& step, int worker, int workers) {
    if (worker == 0) timed_workers_ = workers;
    OperationTime* time = times_.data() + static_cast<std::size_t>(worker) * operations_.size();
    std::int64_t& waited_ns = waited_ns_[static_cast<std::size_t>(worker) * Step::kWaitStride];
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      waited_ns = 0;
      time->begin_ns = steady_ns();
      run_operation(step, i, worker, workers);
      time->end_ns = steady_ns();
      if (has_barrier_after(i, step.small_batch, workers)) barrier_after(step, i, worker, workers);
      time->left_ns = steady_ns();
      time->waited_ns = waited_ns;
      ++time;
    }
  }

  void tell_profiler(const Step& step, std::int64_t begin_ns) {
    const auto logit_rows = static_cast<int>(step.args->logit_rows.size());
    const std::size_t times = operations_.size() * static_cast<std::size_t>(timed_workers_);
    options_.profiler->stepped(
        {profiled_as_, step.rows, logit_rows, begin_ns, steady_ns(), std::span(times_).first(times)});
  }

  // ---- third pass: one operation per instruction ----

  void add(std::unique_ptr<Operation> operation) {
    if (operation == nullptr) return;
    operations_.push_back(std::move(operation));
    made_for_.push_back(number_);
  }

  CompileOptions options_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  const int& small_batch_workers_;
  BuildContext context_;
  PackedWeights packed_;                   // in the order of the instructions
  std::vector<const Packed*> matrices_;    // the same
  std::vector<std::size_t> first_packed_;  // by instruction
  std::size_t packed_count_ = 0;
  Memory arena_;
  std::unique_ptr<BarrierPlan> barriers_;
  std::unique_ptr<Plan> plan_;
  std::vector<std::unique_ptr<Rotary>> rotaries_;
  Operations operations_;
  std::vector<std::vector<bool>> barrier_after_;              // by plan and operation, of small batches
  std::vector<std::vector<std::vector<Operation*>>> shared_;  // by plan and operation: see find_shared()
  std::vector<std::vector<std::vector<Operation*>>> early_;   // by plan and operation: see find_early()
  std::vector<std::vector<Operation*>> alone_;                // by operation: itself, if its parts are shared
  std::uint64_t steps_ = 0;
  ReadAhead read_ahead_;
  StepOutputs outputs_;
  std::vector<std::int32_t> logit_rows_;  // of the last step of a program with a Walk
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> positions_;
  int number_ = 0;                       // of the instruction whose operation is being made
  std::vector<int> made_for_;            // by operation, after the rotaries
  int profiled_as_ = 0;                  // the profiler's name for this executable
  std::vector<OperationTime> times_;     // [workers, operations]; empty without a profiler
  int timed_workers_ = 1;                // of the last step
  std::vector<std::int64_t> waited_ns_;  // [workers, Step::kWaitStride]
};

}  // namespace

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            const SharedResources& shared) {
  using Compiled = Result<std::unique_ptr<Executable>>;
  return format::with_memory_guard("compile the program", "cpu backend", [&]() -> Compiled {
    FT_TRY(check(program));
    if (options.max_rows < 1 || options.max_logit_rows < 0) {
      return Error{Code::kInvalid,
                   fmt::format("cpu backend: a step of {} rows with {} logit rows; ask for at least one row",
                               options.max_rows, options.max_logit_rows)};
    }
    auto executable = std::make_unique<CpuExecutable>(program, options, shared);
    FT_TRY(executable->build(shared));
    return std::unique_ptr<Executable>(std::move(executable));
  });
}

}  // namespace ft::cpu
