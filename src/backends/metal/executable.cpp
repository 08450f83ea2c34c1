#include "backends/metal/executable.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "backends/host_rows.h"
#include "base/clock.h"
#include "format/out_of_memory.h"
#include "program/check.h"

namespace ft::metal {
namespace {

class MetalExecutable final : public Executable {
 public:
  MetalExecutable(std::shared_ptr<Device> device, std::shared_ptr<RoundTokens> round, const Program& program,
                  const CompileOptions& options)
      : device_(std::move(device)),
        round_(std::move(round)),
        program_(program),
        options_(options),
        plan_(program, options.max_rows),
        scratch_memory_(device_),
        memory_{StepMemory(device_, options.max_rows), StepMemory(device_, options.max_rows),
                StepMemory(device_, options.max_rows)} {}

  ~MetalExecutable() override { round_->forget(); }  // also drops the buffers of steps without a collect()

  Status build(const PackedCacheOptions& packed_cache) {
    FT_ASSIGN(arena_, Memory::make(device_, std::max<std::size_t>(1, plan_.bytes())));
    ThreadPool pool(0, 0);  // ends with the packing
    Packing packing(device_, pool);
    FT_TRY(packing.map(packed_cache, program_.instructions()));
    for (const Instruction& instruction : program_.instructions()) {
      const auto* logits = std::get_if<Logits>(&instruction);
      if (logits != nullptr) FT_TRY(prepare(*logits));
      if (logits != nullptr && !logits->ids.empty()) {
        FT_TRY(pack_draft_head(*logits, pool));
        continue;
      }
      FT_ASSIGN(Parts parts, packing.parts(instruction));
      parts_.push_back(std::move(parts));
    }
    packed_bytes_ += packing.bytes();
    device_->keep_pipelines();
    profile();
    return {};
  }

  void submit(const StepArgs& args, State& state) override {
    StepMemory& memory = next_memory();
    memory.fill(args);
    FT_ASSERT(static_cast<int>(args.logit_rows.size()) <= options_.max_logit_rows);
    Step step;
    step.device = device_.get(), step.memory = &memory, step.scratch = &scratch_memory_, step.args = &args;
    step.state = static_cast<MetalState*>(&state);
    step.arena = &arena_, step.plan = &plan_;
    step.logits = logits_.at(), step.columns = static_cast<std::size_t>(vocabulary_);
    step.ids = ids_.empty() ? Place{} : labels_.at(), step.chosen = sampled_.at(), step.round = round_->at();
    step.drafts = device_drafts(args.samples, vocabulary_);
    if (step.drafts != Drafts::kNone) memory.fill_drafts(args.samples, vocabulary_);
    step.rows = memory.rows();
    if (!times_.empty()) return submit_timed(step);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      encode_instruction(step, i);
      if (step.rows > kFewRows && (i + 1) % at_once_ == 0) device_->submit();
    }
    is_long_ = is_long_ || step.rows > kFewRows;
    submissions_[turn_] = device_->submit();
    read_results(step);
  }

  StepResult collect() override {
    finish();
    if (logit_rows_ > 0) result_.logits = logits_of(logit_rows_);
    return result_;
  }

  StepResult run(const StepArgs& args, State& state) override {
    submit(args, state);
    return collect();
  }

  int vocabulary() const override { return vocabulary_; }
  std::span<const std::int32_t> ids() const override { return ids_; }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override {
    if (extra_.empty()) return;
    device_->wait_idle();  // a step may be reading the head
    if (extra_.add(tokens)) pack_extra();
  }
  std::int64_t packed_bytes() const override { return packed_bytes_; }

 private:
  void encode_instruction(const Step& step, std::size_t i) {
    std::visit([&](const auto& op) { encode(step, op, parts_[i]); }, program_.instructions()[i]);
  }

  /// The logits, if they are read, and the tokens of the rows; the tokens of drafts after a wait.
  void read_results(const Step& step) {
    const StepArgs& args = *step.args;
    result_ = {};
    logit_rows_ = args.logits ? args.logit_rows.size() : 0;
    if (args.samples.empty()) return;
    if (step.drafts == Drafts::kNone) return sample(args);
    result_.sampled = {sampled_.as<std::int32_t>(), args.samples.size()};
    for (const SampleRow& row : args.samples) {
      if (row.store >= 0) round_->expect(args.round_tokens, row.store);
    }
  }

  // ---- profiling: one wait for each instruction, only if the caller gave a profiler ----

  void profile() {
    if (options_.profiler == nullptr) return;
    std::vector<ProfiledOperation> list;
    for (const Instruction& instruction : program_.instructions())
      list.push_back({instruction_name(instruction), static_cast<int>(list.size())});
    times_.resize(list.size());
    profiled_as_ = options_.profiler->compiled(program_, std::move(list), 1);
  }

  /// An instruction ends at its start plus the device's time; the host's further wait counts as a
  /// barrier.
  void submit_timed(const Step& step) {
    device_->finish();
    const std::int64_t begin_ns = steady_ns();
    bool has_read = false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      OperationTime& time = times_[i];
      time.begin_ns = steady_ns();
      encode_instruction(step, i);
      device_->submit();
      device_->finish();
      const bool samples = std::holds_alternative<Sample>(program_.instructions()[i]);
      if (samples && !std::exchange(has_read, true)) read_results(step);
      time.left_ns = steady_ns();
      time.end_ns = samples ? time.left_ns : std::min(time.left_ns, time.begin_ns + device_->device_ns());
    }
    if (!has_read) read_results(step);
    options_.profiler->stepped({profiled_as_, static_cast<int>(step.rows),
                                static_cast<int>(step.args->logit_rows.size()), begin_ns, steady_ns(),
                                times_});
  }

  Status prepare(const Logits& op) {
    extra_ = ExtraIdTable(op);
    ids_ = extra_.empty() ? std::span(op.tokens()) : std::span(extra_.ids());
    vocabulary_ = static_cast<int>(op.columns());
    const auto columns = static_cast<std::size_t>(vocabulary_);
    const std::size_t count = columns * static_cast<std::size_t>(options_.max_logit_rows);
    FT_ASSIGN(logits_, Memory::make(device_, std::max<std::size_t>(1, count) * sizeof(float)));
    if (!extra_.empty()) in_order_.resize(count);
    const auto rows = static_cast<std::size_t>(std::max(1, options_.max_logit_rows));
    FT_ASSIGN(sampled_, Memory::make(device_, rows * sizeof(std::int32_t)));
    if (!ids_.empty()) {
      FT_ASSIGN(labels_, Memory::make(device_, ids_.size_bytes()));
      std::ranges::copy(ids_, labels_.as<std::int32_t>());
    }
    scratch_.reserve(columns);
    return {};
  }

  /// The chosen rows of the head. Extra ids get theirs at run time, from a copy of the stored head.
  Status pack_draft_head(const Logits& op, ThreadPool& pool) {
    FT_ASSIGN(PackedMatrix packed, pack_rows(device_, pool, op.lm_head, op.ids, op.extra.count));
    packed_bytes_ += static_cast<std::int64_t>(packed.bytes());
    auto shared = std::make_shared<PackedMatrix>(std::move(packed));
    Parts parts;
    parts.matrices.push_back(shared);
    parts_.push_back(std::move(parts));
    if (extra_.empty()) return {};
    draft_head_ = shared;
    keep_head(op.lm_head);
    packed_extra_.assign(static_cast<std::size_t>(op.extra.count), -1);
    pack_extra();
    return {};
  }

  void keep_head(const Weight& head) {
    const auto part = [&](const std::byte* from, std::int64_t bytes) {
      std::vector<std::byte>& copy = head_bytes_.emplace_back(static_cast<std::size_t>(bytes));
      if (bytes > 0) std::memcpy(copy.data(), from, copy.size());
      return copy.data();
    };
    head_ = head;
    pinned_.fit(head, 1);
    if (head.from != nullptr) return;  // its file stays mapped
    head_bytes_.reserve(3);
    head_.data = part(head.data, head.rows * head.cols * head.stored_bits() / 8);
    if (head.group == 0) return;
    const std::int64_t scales = head.rows * (head.cols / head.group) * element_bytes(head.scale_format);
    head_.scales = part(head.scales, scales);
    if (head.biases != nullptr) head_.biases = part(head.biases, scales);
  }

  void pack_extra() {
    std::ranges::copy(extra_.tokens(), labels_.as<std::int32_t>() + extra_.fixed());  // by place
    for (std::size_t place = 0; place < packed_extra_.size(); ++place) {
      const std::int32_t token = extra_.tokens()[place];
      if (std::exchange(packed_extra_[place], token) == token) continue;
      pack_row(head_, token, *draft_head_, static_cast<std::int64_t>(extra_.fixed() + place), pinned_);
    }
  }

  /// Logits by ascending id: the device has the extra ones by place.
  std::span<const float> logits_of(std::size_t rows) {
    const auto columns = static_cast<std::size_t>(vocabulary_);
    const std::span<const float> raw(logits_.as<float>(), rows * columns);
    if (extra_.empty()) return raw;
    for (std::size_t r = 0; r < rows; ++r) {
      const float* in = raw.data() + r * columns;
      float* out = in_order_.data() + r * columns;
      std::copy_n(in, extra_.fixed(), out);
      for (std::size_t j = 0; j < extra_.order().size(); ++j)
        out[extra_.fixed() + j] = in[extra_.fixed() + static_cast<std::size_t>(extra_.order()[j])];
    }
    return std::span<const float>(in_order_).first(rows * columns);
  }

  /// The device may still be reading the numbers of the last three steps. A step that throws leaves
  /// kEverySubmission.
  StepMemory& next_memory() {
    turn_ = (turn_ + 1) % kStepsAtOnce;
    device_->wait_for(std::exchange(submissions_[turn_], Device::kEverySubmission));
    return memory_[turn_];
  }

  /// Waits, and learns from the pieces of a long step how many instructions the next one's may have.
  void finish() {
    device_->finish();
    round_->fill();
    const std::int64_t longest_ns = device_->longest_ns();
    if (!std::exchange(is_long_, false) || longest_ns <= 0) return;
    const double fit =
        static_cast<double>(at_once_) * static_cast<double>(kPieceNs) / static_cast<double>(longest_ns);
    at_once_ = static_cast<std::size_t>(std::clamp(fit, 1.0, static_cast<double>(kMaxAtOnce)));
  }

  /// The rows' inputs live until submit() returns, so the host waits here.
  void sample(const StepArgs& args) {
    finish();
    tokens_.assign(args.tokens.begin(), args.tokens.end());
    for (std::int32_t& token : tokens_) token = resolved(args, token);
    const std::span<std::int32_t> sampled(sampled_.as<std::int32_t>(), args.samples.size());
    const std::span<const float> logits = logits_of(args.logit_rows.size());
    const auto width = static_cast<std::size_t>(vocabulary_);
    for (std::size_t w = 0; w < args.samples.size(); ++w) {
      const SampleRow& row = args.samples[w];
      sampled[w] =
          ft::sample(logits.subspan(w * width, width), ids_, row, scratch_, drafts_of(args, tokens_, w));
      if (row.store >= 0) round_->set(args.round_tokens, row.store, sampled[w]);
    }
    result_.sampled = sampled;
  }

  // A long step is several command buffers, so that the screen can be drawn in between and the system's
  // watchdog does not stop it.
  static constexpr unsigned kFewRows = 16;
  static constexpr std::size_t kMaxAtOnce = 64;
  static constexpr std::int64_t kPieceNs = 100'000'000;

  std::shared_ptr<Device> device_;
  std::shared_ptr<RoundTokens> round_;
  Program program_;
  CompileOptions options_;
  RowPlan plan_;
  static constexpr std::size_t kStepsAtOnce = 3;
  Scratch scratch_memory_;
  std::array<StepMemory, kStepsAtOnce> memory_;  // of the step that is made and of those before
  std::array<std::int64_t, kStepsAtOnce> submissions_{};
  std::size_t turn_ = 0;
  std::size_t at_once_ = kMaxAtOnce;  // instructions of a long step in one command buffer
  bool is_long_ = false;              // a long step was submitted since the last finish()
  Memory arena_, logits_;
  std::vector<Parts> parts_;  // by instruction
  std::int64_t packed_bytes_ = 0;

  ExtraIdTable extra_;
  std::span<const std::int32_t> ids_;
  int vocabulary_ = 0;
  std::shared_ptr<PackedMatrix> draft_head_;  // with extra ids: the head that changes
  Weight head_;                               // points into head_bytes_
  std::vector<std::vector<std::byte>> head_bytes_;
  PinnedRows pinned_;                       // for one row of it
  std::vector<std::int32_t> packed_extra_;  // token of each place
  std::vector<float> in_order_;
  Memory labels_;                     // tokens of the columns as the device has them
  Memory sampled_;                    // [logit rows] of the last step
  std::vector<std::int32_t> tokens_;  // of a step that the host samples
  SampleScratch scratch_;
  int profiled_as_ = 0;               // the profiler's name for this executable
  std::vector<OperationTime> times_;  // by instruction; empty without a profiler
  StepResult result_;                 // of the last step
  std::size_t logit_rows_ = 0;        // of it, that the caller reads
};

}  // namespace

Result<std::unique_ptr<Executable>> compile(const std::shared_ptr<Device>& device, const Program& program,
                                            const CompileOptions& options,
                                            const PackedCacheOptions& packed_cache,
                                            std::shared_ptr<RoundTokens> round) {
  using Compiled = Result<std::unique_ptr<Executable>>;
  const std::string who = fmt::format("{} backend", device->name());
  return format::with_memory_guard("compile the program", who.c_str(), [&]() -> Compiled {
    FT_TRY(check(program));
    FT_TRY(make_pipelines(*device, program));
    if (!round) {
      FT_ASSIGN(round, RoundTokens::make(device));
    }
    auto executable = std::make_unique<MetalExecutable>(device, std::move(round), program, options);
    try {
      FT_TRY(executable->build(packed_cache));
    } catch (const std::system_error& error) {
      return Error{Code::kExhausted,
                   fmt::format("{}: cannot start the threads that pack weights: {}; close other programs",
                               who, error.what())};
    }
    return std::unique_ptr<Executable>(std::move(executable));
  });
}

}  // namespace ft::metal
