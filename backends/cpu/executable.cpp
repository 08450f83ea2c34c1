#include "backends/cpu/executable.h"

#include <algorithm>
#include <fmt/format.h>

#include "backends/cpu/denormals.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/packed_weights.h"
#include "backends/cpu/spare_head.h"
#include "backends/host_rows.h"
#include "base/assert.h"
#include "base/clock.h"
#include "format/out_of_memory.h"
#include "program/check.h"
#include "sampling/select.h"

namespace ft::cpu {
namespace {

class SelectOp final : public Operation {
 public:
  SelectOp(Matrix logits, std::vector<std::int32_t>& selected, const std::vector<std::int32_t>& ids,
           const SpareHead& spare, int workers)
      : logits_(logits),
        selected_(selected),
        ids_(spare.empty() ? ids : spare.ids().ids()),
        spare_(spare),
        scratch_(static_cast<std::size_t>(workers)) {
    for (SelectScratch& scratch : scratch_) scratch.reserve(static_cast<std::size_t>(logits.width));
    spare_logits_.resize(scratch_.size() * spare.columns());
  }

  void run(const Step& step, int worker, int workers) override {
    const FlushDenormals exact(false);  // a token is chosen by the same arithmetic on every backend
    const auto& selects = step.args->selects;
    const auto own = static_cast<std::size_t>(worker);
    for (std::size_t w = own; w < step.args->wanted.size(); w += static_cast<std::size_t>(workers)) {
      float* const logits = logits_.row(static_cast<std::int64_t>(w));
      if (!spare_.empty()) spare_.arrange(logits, spare_logits_.data() + own * spare_.columns());
      if (w >= selects.size()) continue;
      const std::span<const float> row(logits, static_cast<std::size_t>(logits_.width));
      selected_[w] = ft::select(row, ids_, selects[w], scratch_[own], drafts_of(step, w));
      const std::int32_t store = selects[w].store;
      if (store >= 0) step.args->round_tokens[static_cast<std::size_t>(store)] = selected_[w];
    }
  }

 private:
  /// What counts as emitted before wanted row `w`.
  static std::span<const std::int32_t> drafts_of(const Step& step, std::size_t w) {
    const DraftPlaces& drafts = step.args->selects[w].drafts;
    const auto count = static_cast<std::size_t>(drafts.count);
    if (drafts.first >= 0)
      return step.args->round_tokens.subspan(static_cast<std::size_t>(drafts.first), count);
    return {step.tokens + step.args->wanted[w] + 1 - drafts.count, count};
  }

  Matrix logits_;
  std::vector<std::int32_t>& selected_;
  const std::vector<std::int32_t>& ids_;
  const SpareHead& spare_;
  std::vector<SelectScratch> scratch_;
  std::vector<float> spare_logits_;  // [workers, spare columns]
};

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const Program& program, const CompileOptions& options, const Machinery& machinery)
      : options_(options), pool_(machinery.pool), kernels_(machinery.kernels), packed_(machinery.weights) {
    parts_.program = &program;
    parts_.options = options;
    parts_.workers = pool_.workers();
    parts_.halves = machinery.activation_bits == 16;
    parts_.pair_bytes = parts_.halves ? kExactPairBytes : kernels_.pair_bytes;
  }

  /// The rest of construction, which may fail.
  Status build(const Machinery& machinery) {
    const auto& instructions = parts_.program->instructions();
    schedule_ = std::make_unique<Schedule>(*parts_.program, parts_.workers);
    parts_.schedule = schedule_.get();
    for (const Instruction& instruction : instructions) FT_TRY(collect(instruction));
    FT_TRY(packed_.fill(pool_, machinery.prepared, machinery.progress));
    FT_TRY(place());
    for (const Instruction& instruction : instructions) {
      parts_.scratch = arena_.data() + plan_->scratch_offset(number_);
      std::visit([this](const auto& op) { make(op); }, instruction);
      ++number_;
    }
    profile();
    find_meetings();
    tokens_.resize(static_cast<std::size_t>(options_.max_rows));
    positions_.resize(static_cast<std::size_t>(options_.max_rows));
    selected_.resize(static_cast<std::size_t>(options_.max_wanted));
    parts_.program = nullptr;
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
      FT_ASSERT(segment.rows - segment.settled <= kMaxTapeRows);
      for (int r = 0; r < segment.rows; ++r)
        positions_[static_cast<std::size_t>(step.rows++)] = segment.position + r;
    }
    FT_ASSERT(static_cast<int>(args.wanted.size()) <= options_.max_wanted);
    for (std::size_t r = 0; r < args.tokens.size(); ++r) {
      const std::int32_t token = args.tokens[r];
      tokens_[r] = token < 0 ? args.round_tokens[static_cast<std::size_t>(-1 - token)] : token;
    }
    step.few = step.rows <= kFewRows;
    auto walk = [this, &step](int worker, int workers) {
      const FlushDenormals flush;
      if (!times_.empty()) return walk_timed(step, worker, workers);
      for (std::size_t i = 0; i < operations_.size(); ++i) {
        operations_[i]->run(step, worker, workers);
        if (meets_after(i, step.few)) pool_.barrier();
      }
    };
    pool_.run(walk);
    if (!times_.empty()) {
      options_.profiler->stepped(
          {profiled_as_, step.rows, static_cast<int>(args.wanted.size()), begin_ns, steady_ns(), times_});
    }
    StepResult result;
    const auto wanted = args.wanted.size();
    if (args.logits) result.logits = {logits_.data, wanted * static_cast<std::size_t>(logits_.width)};
    if (selects_) result.selected = {selected_.data(), args.selects.size()};
    if (tap_.width > 0) capture_rows(args.capture, tap_.data);
    return result;
  }

  int vocabulary() const override { return static_cast<int>(logits_.width); }
  std::span<const std::int32_t> ids() const override { return spare_.empty() ? ids_ : spare_.ids().ids(); }
  void add_ids(std::span<const std::int32_t> tokens) override {
    if (!spare_.empty()) spare_.add(tokens);
  }
  std::int64_t packed_bytes() const override { return packed_.bytes() + spare_.bytes(); }

 private:
  // ---- first pass: what must be packed, how much memory the workers need ----

  Status collect(const Instruction& instruction) {
    const int most_bits = parts_.program->most_bits();
    if (const auto* linear = std::get_if<Linear>(&instruction)) {
      for (const Weight& weight : linear->weights) FT_TRY(packed_.add(weight, {}, most_bits));
    } else if (const auto* logits = std::get_if<Logits>(&instruction)) {
      FT_TRY(packed_.add(logits->head, logits->ids, most_bits));
      FT_TRY(spare_.make(*logits, most_bits));
    } else if (const auto* attend = std::get_if<Attend>(&instruction)) {
      parts_.worker_floats = std::max(parts_.worker_floats, attend_worker_floats(*attend));
      add_rotary(*attend);
    } else if (const auto* delta = std::get_if<DeltaRule>(&instruction)) {
      parts_.worker_floats = std::max(parts_.worker_floats, delta_worker_floats(*delta));
    }
    return {};
  }

  void add_rotary(const Attend& op) {
    if (op.rotary == 0 || find_rotary(op) != nullptr) return;
    const std::size_t size = op.inverse_frequencies.size() * static_cast<std::size_t>(options_.max_rows);
    rotaries_.push_back(std::make_unique<Rotary>(
        Rotary{op.inverse_frequencies, op.rotary_scale, std::vector<float>(size), std::vector<float>(size)}));
    operations_.push_back(make_rotary(*rotaries_.back()));
  }

  const Rotary* find_rotary(const Attend& op) const {
    for (const std::unique_ptr<Rotary>& rotary : rotaries_) {
      if (rotary->frequencies == op.inverse_frequencies && rotary->scale == op.rotary_scale)
        return rotary.get();
    }
    return nullptr;
  }

  // ---- second pass: where the activations stand ----

  std::int64_t scratch_bytes(const Instruction& instruction, std::size_t& job) const {
    if (const auto* linear = std::get_if<Linear>(&instruction)) {
      return linear_scratch_bytes(peek(job, linear->weights.size()), options_.max_rows, parts_);
    }
    if (std::holds_alternative<Logits>(instruction)) {
      return linear_scratch_bytes(peek(job, 1), options_.max_wanted, parts_);
    }
    if (const auto* attend = std::get_if<Attend>(&instruction))
      return attend_scratch_bytes(*attend, options_.max_rows);
    return 0;
  }

  std::vector<const Packed*> peek(std::size_t& job, std::size_t count) const {
    std::vector<const Packed*> weights;
    while (count-- > 0) weights.push_back(packed_.at(job++));
    return weights;
  }

  Status place() {
    std::vector<std::int64_t> scratch;
    std::size_t job = 0;
    for (const Instruction& instruction : parts_.program->instructions()) {
      scratch.push_back(scratch_bytes(instruction, job));
      if (const auto* logits = std::get_if<Logits>(&instruction)) {
        logits_.width = logits->ids.empty()
                            ? logits->head.rows
                            : static_cast<std::int64_t>(logits->ids.size()) + logits->spare.count;
      }
    }
    plan_ = std::make_unique<Plan>(*parts_.program, *schedule_, options_, parts_.workers, scratch);
    const std::int64_t worker_bytes = round_up(parts_.worker_floats, kLanes) * 4;
    const std::int64_t logit_bytes = round_up(logits_.width * options_.max_wanted * 4, 64);
    const std::int64_t total = round_up(plan_->bytes(), 64) + worker_bytes * parts_.workers + logit_bytes;
    arena_ = Memory::allocate(total);
    if (arena_.empty()) {
      return Error{
          Code::kExhausted,
          fmt::format("cpu backend: no memory for {:.2f} GB of activations ({} rows a step); use a smaller "
                      "prompt chunk",
                      static_cast<double>(total) * 1e-9, options_.max_rows)};
    }
    parts_.arena = arena_.data();
    parts_.worker_floats = round_up(parts_.worker_floats, kLanes);
    std::byte* behind = arena_.data() + round_up(plan_->bytes(), 64);
    logits_.data = reinterpret_cast<float*>(behind);
    parts_.worker_scratch = reinterpret_cast<float*>(behind + logit_bytes);
    for (int id = 0; id < parts_.program->row_count(); ++id)
      parts_.row_offsets.push_back(plan_->row_offset(id));
    return {};
  }

  /// The pool itself waits for all workers behind the last operation.
  void find_meetings() {
    const std::size_t rotaries = operations_.size() - made_for_.size();
    meets_.assign(operations_.size(), false);
    for (std::size_t i = 0; i + 1 < made_for_.size(); ++i)
      meets_[rotaries + i] = schedule_->group(made_for_[i]) != schedule_->group(made_for_[i + 1]);
  }

  bool meets_after(std::size_t operation, bool few) const {
    return operation + 1 < operations_.size() && (!few || meets_[operation]);
  }

  // ---- for whoever measures: the clock is read only if the caller gave a profiler ----

  void profile() {
    if (options_.profiler == nullptr) return;
    std::vector<ProfiledOperation> list(operations_.size() - made_for_.size(), {"rotary", -1});
    for (const int instruction : made_for_) {
      list.push_back({instruction_name(parts_.program->instructions()[static_cast<std::size_t>(instruction)]),
                      instruction});
    }
    times_.resize(operations_.size() * static_cast<std::size_t>(parts_.workers));
    waited_ns_.resize(static_cast<std::size_t>(parts_.workers) * Step::kWaitStride);
    profiled_as_ = options_.profiler->compiled(*parts_.program, std::move(list), parts_.workers);
  }

  void walk_timed(const Step& step, int worker, int workers) {
    OperationTime* time = times_.data() + static_cast<std::size_t>(worker) * operations_.size();
    std::int64_t& waited_ns = waited_ns_[static_cast<std::size_t>(worker) * Step::kWaitStride];
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      waited_ns = 0;
      time->begin_ns = steady_ns();
      operations_[i]->run(step, worker, workers);
      time->end_ns = steady_ns();
      if (meets_after(i, step.few)) pool_.barrier();
      time->left_ns = steady_ns();
      time->waited_ns = waited_ns;
      ++time;
    }
  }

  // ---- third pass: one operation an instruction ----

  void add(std::unique_ptr<Operation> operation) {
    operations_.push_back(std::move(operation));
    made_for_.push_back(number_);
  }
  void make(const Embed& op) { add(make_embed(op, parts_)); }
  void make(const Input& op) { add(make_input(op, parts_)); }
  void make(const Norm& op) { add(make_norm(op, parts_)); }
  void make(const Linear& op) {
    std::vector<Matrix> outs;
    for (const Row out : op.outs) outs.push_back(parts_.matrix(out));
    add(make_linear(peek(next_job_, op.weights.size()), parts_.matrix(op.in), std::move(outs), false,
                    parts_));
  }
  void make(const Attend& op) { add(make_attend(op, find_rotary(op), parts_)); }
  void make(const Conv& op) { add(make_conv(op, parts_)); }
  void make(const DeltaRule& op) { add(make_delta_rule(op, parts_)); }
  void make(const GatedNorm& op) { add(make_gated_norm(op, parts_)); }
  void make(const Swiglu& op) { add(make_swiglu(op, parts_)); }
  void make(const Geglu& op) { add(make_geglu(op, parts_)); }
  void make(const Add& op) { add(make_add(op, parts_)); }
  void make(const Concat& op) { add(make_concat(op, parts_)); }
  void make(const Tap& op) { tap_ = parts_.matrix(op.in); }
  void make(const Logits& op) {
    ids_ = op.ids;
    std::vector<const Packed*> heads = peek(next_job_, 1);
    std::vector<Matrix> outs = {logits_};
    if (!spare_.empty()) {
      heads.push_back(spare_.packed());
      outs.push_back({logits_.data + spare_.ids().fixed(), logits_.width});
    }
    add(make_linear(heads, parts_.matrix(op.in), std::move(outs), true, parts_));
  }
  void make(const Select&) {
    selects_ = true;
    add(std::make_unique<SelectOp>(logits_, selected_, ids_, spare_, parts_.workers));
  }

  CompileOptions options_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  Parts parts_;
  PackedWeights packed_;  // in the order of the instructions
  SpareHead spare_;
  std::size_t next_job_ = 0;
  Memory arena_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<Plan> plan_;
  std::vector<std::unique_ptr<Rotary>> rotaries_;
  Operations operations_;
  std::vector<bool> meets_;  // by operation: the workers meet behind it in a short step
  Matrix logits_, tap_;
  bool selects_ = false;
  std::vector<std::int32_t> ids_, tokens_, selected_;
  std::vector<std::int64_t> positions_;
  int number_ = 0;                       // of the instruction that an operation is made for
  std::vector<int> made_for_;            // by operation, behind the rotaries
  int profiled_as_ = 0;                  // what the profiler calls this executable
  std::vector<OperationTime> times_;     // [workers, operations]; empty: nobody measures
  std::vector<std::int64_t> waited_ns_;  // [workers, Step::kWaitStride]
};

}  // namespace

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            const Machinery& machinery) {
  using Compiled = Result<std::unique_ptr<Executable>>;
  return format::with_memory_guard("compile the program", "cpu backend", [&]() -> Compiled {
    FT_TRY(check(program));
    if (options.max_rows < 1 || options.max_wanted < 0) {
      return Error{Code::kInvalid,
                   fmt::format("cpu backend: a step of {} rows with {} wanted; ask for at least one row",
                               options.max_rows, options.max_wanted)};
    }
    auto executable = std::make_unique<CpuExecutable>(program, options, machinery);
    FT_TRY(executable->build(machinery));
    return std::unique_ptr<Executable>(std::move(executable));
  });
}

}  // namespace ft::cpu
