#include "backends/ref/executable.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>

#include "backends/host_rows.h"
#include "backends/spare_ids.h"
#include "backends/weight_rows.h"
#include "format/out_of_memory.h"
#include "program/check.h"
#include "sampling/select.h"

namespace ft::ref {
namespace {

Decoded decode(const Weight& weight) {
  Decoded decoded{weight.rows, weight.cols, {}};
  if (weight.empty()) return decoded;
  decoded.values.resize(static_cast<std::size_t>(weight.rows * weight.cols));
  read_rows(weight, 0, weight.rows, decoded.values.data());
  return decoded;
}

class RefExecutable final : public Executable {
 public:
  RefExecutable(const Program& program, const CompileOptions& options)
      : program_(program), options_(options) {
    values_.resize(static_cast<std::size_t>(program.row_count()));
    for (const Instruction& instruction : program.instructions()) {
      std::visit([this](const auto& op) { prepare(op); }, instruction);
    }
    select_.reserve(static_cast<std::size_t>(vocabulary_));
  }

  StepResult run(const StepArgs& args, State& state) override {
    Step step{&args, static_cast<RefState*>(&state), {}, &values_, 0};
    for (const Segment& segment : args.segments) step.rows += segment.rows;
    FT_ASSERT(step.rows <= options_.max_rows);
    FT_ASSERT(static_cast<int>(args.wanted.size()) <= options_.max_wanted);
    for (const std::int32_t token : args.tokens) {
      step.tokens.push_back(token < 0 ? args.round_tokens[static_cast<std::size_t>(-1 - token)] : token);
    }
    result_ = {};
    next_weight_ = 0;
    for (const Instruction& instruction : program_.instructions()) {
      std::visit([this, &step](const auto& op) { execute(step, op); }, instruction);
    }
    return result_;
  }

  int vocabulary() const override { return vocabulary_; }
  std::span<const std::int32_t> ids() const override { return spare_.empty() ? ids_ : spare_.ids(); }
  void add_ids(std::span<const std::int32_t> tokens) override { spare_.add(tokens); }
  std::int64_t packed_bytes() const override {
    std::size_t floats = 0;
    for (const Decoded& weight : weights_) floats += weight.values.size();
    return static_cast<std::int64_t>(floats * sizeof(float));
  }

 private:
  // Compile: a decoded copy of each weight, in the order in which `execute` takes them back.
  void keep(const Weight& weight) { weights_.push_back(decode(weight)); }
  void keep(Row row) {
    values_[static_cast<std::size_t>(row.id)].resize(static_cast<std::size_t>(row.width) *
                                                     static_cast<std::size_t>(options_.max_rows));
  }
  void prepare(const Embed& op) { keep(op.table), keep(op.out); }
  void prepare(const Input& op) { keep(op.out); }
  void prepare(const Norm& op) { keep(op.weight), keep(op.out); }
  void prepare(const Linear& op) {
    for (const Weight& weight : op.weights) keep(weight);
    for (const Row out : op.outs) keep(out);
  }
  void prepare(const Attend& op) { keep(op.q_norm), keep(op.k_norm), keep(op.out); }
  void prepare(const Conv& op) { keep(op.kernel), keep(op.out); }
  void prepare(const DeltaRule& op) { keep(op.a_log), keep(op.dt_bias), keep(op.out); }
  void prepare(const GatedNorm& op) { keep(op.weight), keep(op.out); }
  void prepare(const Swiglu& op) { keep(op.out); }
  void prepare(const Geglu& op) { keep(op.out); }
  void prepare(const Add& op) { keep(op.out); }
  void prepare(const Concat& op) { keep(op.out); }
  void prepare(const Tap&) {}
  void prepare(const Logits& op) {
    keep(op.head);
    spare_ = SpareIds(op);
    ids_ = op.ids;
    vocabulary_ = static_cast<int>(op.ids.empty() ? op.head.rows : static_cast<std::int64_t>(ids().size()));
    logits_.resize(static_cast<std::size_t>(vocabulary_) * static_cast<std::size_t>(options_.max_wanted));
    selected_.resize(static_cast<std::size_t>(options_.max_wanted));
  }
  void prepare(const Select&) {}

  const Decoded& take() { return weights_[next_weight_++]; }

  void execute(const Step& step, const Embed& op) {
    const Decoded& table = take();
    for (int r = 0; r < step.rows; ++r) {
      const std::int64_t token = step.tokens[static_cast<std::size_t>(r)];
      std::copy_n(table.values.data() + token * table.cols, table.cols, step.row(op.out, r));
    }
  }
  void execute(const Step& step, const Input& op) {
    for (int r = 0; r < step.rows; ++r) {
      std::copy_n(host_row(step.args->hidden, r), op.out.width, step.row(op.out, r));
    }
  }
  void execute(const Step& step, const Norm& op) { norm(step, op, take()); }
  void execute(const Step& step, const Linear& op) {
    for (const Row out : op.outs) linear(step, op.in, out, take());
  }
  void execute(const Step& step, const Attend& op) {
    const Decoded& q_norm = take();
    attend(step, op, q_norm, take());
  }
  void execute(const Step& step, const Conv& op) { conv(step, op, take()); }
  void execute(const Step& step, const DeltaRule& op) {
    const Decoded& a_log = take();
    delta_rule(step, op, a_log, take());
  }
  void execute(const Step& step, const GatedNorm& op) { gated_norm(step, op, take()); }
  void execute(const Step& step, const Swiglu& op) { swiglu(step, op); }
  void execute(const Step& step, const Geglu& op) { geglu(step, op); }
  void execute(const Step& step, const Add& op) { add(step, op); }
  void execute(const Step& step, const Concat& op) { concat(step, op); }
  void execute(const Step& step, const Tap& op) { capture_rows(step.args->capture, step.row(op.in, 0)); }
  void execute(const Step& step, const Logits& op) {
    const Decoded& head = take();
    for (std::size_t w = 0; w < step.args->wanted.size(); ++w) {
      float* out = logits_.data() + w * static_cast<std::size_t>(vocabulary_);
      for (int v = 0; v < vocabulary_; ++v) {
        const std::int64_t id = op.ids.empty() ? v : ids()[static_cast<std::size_t>(v)];
        out[v] = dot(step.row(op.in, step.args->wanted[w]), head.values.data() + id * head.cols, head.cols);
      }
    }
    if (!step.args->logits) return;
    result_.logits = {logits_.data(), step.args->wanted.size() * static_cast<std::size_t>(vocabulary_)};
  }
  /// What counts as emitted before wanted row `w`.
  static std::span<const std::int32_t> drafts_of(const Step& step, std::size_t w) {
    const DraftPlaces& drafts = step.args->selects[w].drafts;
    const auto count = static_cast<std::size_t>(drafts.count);
    if (drafts.first >= 0)
      return step.args->round_tokens.subspan(static_cast<std::size_t>(drafts.first), count);
    const auto end = static_cast<std::size_t>(step.args->wanted[w]) + 1;
    return std::span<const std::int32_t>(step.tokens).subspan(end - count, count);
  }
  void execute(const Step& step, const Select&) {
    const auto width = static_cast<std::size_t>(vocabulary_);
    for (std::size_t w = 0; w < step.args->selects.size(); ++w) {
      const SelectRow& row = step.args->selects[w];
      const std::span<const float> logits = std::span<const float>(logits_).subspan(w * width, width);
      selected_[w] = ft::select(logits, ids(), row, select_, drafts_of(step, w));
      if (row.store >= 0) step.args->round_tokens[static_cast<std::size_t>(row.store)] = selected_[w];
    }
    result_.selected = {selected_.data(), step.args->selects.size()};
  }

  Program program_;
  CompileOptions options_;
  std::vector<Decoded> weights_;
  std::vector<Matrix> values_;
  std::vector<float> logits_;           // [max_wanted, vocabulary]
  std::vector<std::int32_t> selected_;  // [max_wanted]
  std::vector<std::int32_t> ids_;
  SpareIds spare_;
  SelectScratch select_;
  StepResult result_;
  std::size_t next_weight_ = 0;
  int vocabulary_ = 0;
};

}  // namespace

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options) {
  using Compiled = Result<std::unique_ptr<Executable>>;
  return format::with_memory_guard("compile the program", "ref backend", [&]() -> Compiled {
    FT_TRY(check(program));
    try {
      return std::unique_ptr<Executable>(std::make_unique<RefExecutable>(program, options));
    } catch (const std::bad_alloc&) {
      return Error{Code::kExhausted,
                   fmt::format("ref backend: no memory for {:.1f} GB of float32 weights; use the cpu "
                               "backend, which keeps them quantised",
                               static_cast<double>(program.bytes_per_step()) * 8e-9)};
    }
  });
}

}  // namespace ft::ref
