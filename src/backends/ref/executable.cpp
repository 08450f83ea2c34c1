#include "backends/ref/executable.h"

#include <fmt/format.h>
#include <new>
#include <optional>

#include "backends/host_rows.h"
#include "backends/weight_rows.h"
#include "format/out_of_memory.h"
#include "program/check.h"

namespace ft::ref {
namespace {

Decoded decode(const Weight& weight) {
  Decoded decoded{weight.rows, weight.cols, {}};
  if (weight.empty()) return decoded;
  decoded.values.resize(static_cast<std::size_t>(weight.rows * weight.cols));
  read_rows(weight, 0, weight.rows, decoded.values.data());
  return decoded;
}

/// Decodes an instruction's weights and makes room for its rows.
class Preparation final : public Describer {
 public:
  Preparation(std::vector<Decoded>& weights, std::vector<Matrix>& values, int max_rows)
      : weights_(weights), values_(values), max_rows_(static_cast<std::size_t>(max_rows)) {}
  void vector(const Weight& weight, std::int64_t) override { weights_.push_back(decode(weight)); }
  void table(const Weight& weight, std::int64_t) override { weights_.push_back(decode(weight)); }
  void matrix(const Weight& weight, std::int64_t, std::int64_t, std::int64_t) override {
    weights_.push_back(decode(weight));
  }
  void writes(Row row, int width, Granularity) override {
    values_[static_cast<std::size_t>(row.id)].resize(static_cast<std::size_t>(width) * max_rows_);
  }

 private:
  std::vector<Decoded>& weights_;
  std::vector<Matrix>& values_;
  std::size_t max_rows_;
};

class RefExecutable final : public Executable {
 public:
  RefExecutable(const Program& program, const CompileOptions& options)
      : program_(program), options_(options), weights_(program.instructions().size()) {
    values_.resize(static_cast<std::size_t>(program.row_count()));
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const Instruction& instruction = program_.instructions()[i];
      Preparation preparation(weights_[i], values_, options.max_rows);
      describe(instruction, preparation);
      if (const auto* logits = std::get_if<Logits>(&instruction)) prepare(*logits);
      if (const auto* logits = std::get_if<ClusterLogits>(&instruction)) make_room(logits->table.rows);
      if (const auto* walk = std::get_if<Walk>(&instruction)) walker_.emplace(*walk);
    }
  }

  StepResult run(const StepArgs& args, State& state) override {
    Step step{&args, static_cast<RefState*>(&state), {}, &values_, &outputs_, 0};
    for (const Segment& segment : args.segments) step.rows += segment.rows;
    FT_ASSERT(step.rows <= options_.max_rows);
    FT_ASSERT(static_cast<int>(args.logit_rows.size()) <= options_.max_logit_rows);
    for (const std::int32_t token : args.tokens) step.tokens.push_back(resolved(args, token));
    outputs_.result = {};
    logit_rows_.assign(args.logit_rows.begin(), args.logit_rows.end());
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      std::visit([&](const auto& op) { execute(step, op, Weights(weights_[i])); },
                 program_.instructions()[i]);
    }
    return outputs_.result;
  }

  int vocabulary() const override { return outputs_.vocabulary; }
  std::span<const std::int32_t> ids() const override { return outputs_.ids; }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override { outputs_.extra.add(tokens); }
  void walk_candidates(std::size_t row, std::int32_t predecessor, std::span<const std::uint32_t> mask,
                       WalkCandidates& out) const override {
    const auto width = static_cast<std::size_t>(outputs_.vocabulary);
    const std::span<const float> logits = std::span(outputs_.logits).subspan(row * width, width);
    const Row& factors = walker_->op().factors;
    const auto at = static_cast<std::size_t>(logit_rows_[row]) * static_cast<std::size_t>(factors.width);
    walker_->candidates(logits, outputs_.ids, mask,
                        factors.id < 0 ? nullptr : values_[static_cast<std::size_t>(factors.id)].data() + at,
                        predecessor, out);
  }
  std::int64_t packed_bytes() const override {
    std::size_t floats = 0;
    for (const std::vector<Decoded>& weights : weights_) {
      for (const Decoded& weight : weights) floats += weight.values.size();
    }
    return static_cast<std::int64_t>(floats * sizeof(float));
  }

 private:
  void prepare(const Logits& op) {
    outputs_.extra = ExtraIdTable(op);
    outputs_.ids = outputs_.extra.empty() ? std::span(op.tokens()) : std::span(outputs_.extra.ids());
    make_room(op.columns());
  }

  void make_room(std::int64_t of_columns) {
    outputs_.vocabulary = static_cast<int>(of_columns);
    const auto columns = static_cast<std::size_t>(outputs_.vocabulary);
    outputs_.logits.resize(columns * static_cast<std::size_t>(options_.max_logit_rows));
    outputs_.sampled.resize(static_cast<std::size_t>(options_.max_logit_rows));
    outputs_.scratch.reserve(columns);
  }

  Program program_;
  CompileOptions options_;
  std::vector<std::vector<Decoded>> weights_;  // by instruction
  std::vector<Matrix> values_;                 // by Row::id
  StepOutputs outputs_;
  std::optional<Walker> walker_;
  std::vector<std::int32_t> logit_rows_;  // of the last step
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
                               static_cast<double>(program.bytes_held()) * 8e-9)};
    }
  });
}

}  // namespace ft::ref
