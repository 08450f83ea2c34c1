#include "backends/cuda/compiler.h"

#include <algorithm>
#include <fmt/format.h>

#include "backends/cuda/executable.h"
#include "format/out_of_memory.h"
#include "program/check.h"

namespace ft::cuda {
namespace {

Status lacks(const std::string& what) {
  return Error{Code::kUnsupported, "cuda backend: it has no kernel for " + what + "; use --backend cpu"};
}

Status check_supported(const Attention& op) {
  if (op.head_dim <= kMaxHeadDim && op.head_dim % 2 == 0) return {};
  return lacks(
      fmt::format("attention heads of {} numbers, only for even ones to {}", op.head_dim, kMaxHeadDim));
}
Status check_supported(const DeltaRule& op) {
  if (padded_keys(op.key_dim) > 0) return {};
  return lacks(fmt::format("keys of {} numbers in a delta rule, only to 256", op.key_dim));
}
/// For rows that a drafter reads one by one.
Status check_table(const Weight& table) {
  FT_ASSIGN(const WeightKind kind, kind_of(table));
  return kind.small_floats ? lacks(fmt::format("rows of {}, which is mxfp4", table.name)) : Status();
}
Status check_supported(const ClusterLogits& op) { return check_table(op.table); }
Status check_supported(const Walk& op) {
  FT_TRY(check_table(op.predecessor));
  FT_TRY(check_table(op.successor));
  if (op.predecessor.cols <= kMaxWalkRank) return {};
  return lacks(fmt::format("a walk of rank {}, only to {}", op.predecessor.cols, kMaxWalkRank));
}
Status check_supported(const Linear& op) {
  for (const Weight& weight : op.weights) FT_TRY(kind_of(weight));
  return {};
}
Status check_supported(const Logits& op) {
  FT_TRY(kind_of(op.lm_head));
  return {};
}
Status check_supported(const TopKRouter& op) {
  if (op.chosen <= kMaxChosen) return {};
  return lacks(fmt::format("rows that go to {} experts, only to {}", op.chosen, kMaxChosen));
}
Status check_supported(const MoeMlp& op) {
  for (const auto* list : {&op.gate, &op.up, &op.down}) {
    for (const Weight& weight : *list) FT_TRY(kind_of(weight));
  }
  return {};
}
template <class Op>
Status check_supported(const Op& /*op*/) {
  return {};
}

}  // namespace

Status check_supported(const Program& program) {
  for (const Instruction& instruction : program.instructions())
    FT_TRY(std::visit([](const auto& op) { return check_supported(op); }, instruction));
  return {};
}

Compiler::Compiler(std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights,
                   std::shared_ptr<Scratch> scratch, std::shared_ptr<RoundTokens> round,
                   const CompileOptions& options, const Precision& precision)
    : device_(std::move(device)),
      weights_(std::move(weights)),
      scratch_(std::move(scratch)),
      round_(std::move(round)),
      options_(options),
      kv_bits_(precision.kv_bits),
      arithmetic_(precision.arithmetic) {}

Result<CompiledProgram> Compiler::compile(const Program& program) {
  program_ = &program;
  plan_ = std::make_unique<RowPlan>(program, options_.max_rows);
  state_plan_ = std::make_unique<StatePlan>(program.layout(), kv_bits_);
  find_mixtures(program);
  FT_TRY(reserve(program));
  for (const Instruction& instruction : program.instructions()) {
    const std::size_t first = operations_.size();
    if (const NormChain* const chain = plan_->chain_at(number_)) {
      FT_TRY(make(*chain));
    } else if (!plan_->done(number_)) {
      FT_TRY(std::visit([this](const auto& op) { return make(op); }, instruction));
    }
    if (const Mixture* const mixture = mixture_with(number_)) {
      leave_to_mixture(first, *mixture);
      if (number_ == mixture->last) FT_TRY(make_mixture(*mixture));
    }
    made_for_.resize(operations_.size(), number_);
    ++number_;
  }
  return finish();
}

CompiledProgram Compiler::finish() {
  CompiledProgram made;
  made.operations = std::move(operations_), made.made_for = std::move(made_for_);
  made.step = std::move(step_), made.partial_floats = partial_floats_;
  made.vocabulary = vocabulary_, made.columns = std::move(columns_);
  made.logits = logits_, made.samples = samples_, made.sample_args = sample_args_;
  made.walk = std::move(walk_);
  made.packed = std::move(packed_), made.memory = std::move(retained_);
  for (Memory* memory : {&logits_memory_, &sample_memory_, &codes_.scales, &expert_rows_,
                         &expert_tile_memory_, &mixture_rows_})
    made.memory.push_back(std::move(*memory));
  made.shared = {arena_, linear_workspace_, queries_, codes_.codes};
  return made;
}

// ---- memory ----

void Compiler::plan_codes(const Weight& weight, int rows) {
  const auto kind = kind_of(weight);
  if (!kind.ok()) return;
  const ActivationFormat format = kind->activations(arithmetic_);
  code_bytes_ = std::max(code_bytes_, format.code_bytes(rows, weight.cols));
  code_scale_bytes_ = std::max(code_scale_bytes_, format.scale_bytes(rows, weight.cols));
  workspace_bytes_ =
      std::max(workspace_bytes_, linear_workspace(*kind, arithmetic_, weight.cols, rows, *device_));
}

void Compiler::plan_attend(const Attention& op) {
  query_floats_ = std::max(query_floats_, std::int64_t{options_.max_rows} * op.heads * op.head_dim);
  partial_floats_ = std::max(partial_floats_, std::int64_t{op.heads} * (op.head_dim + kPartialExtra));
}

Status Compiler::reserve(const Program& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* linear = std::get_if<Linear>(&instruction)) {
      for (const Weight& weight : linear->weights)
        plan_codes(requantised_as(weight, program.max_weight_bits()), options_.max_rows);
    } else if (const auto* experts = std::get_if<MoeMlp>(&instruction)) {
      plan_experts(*experts, program.max_weight_bits());
    } else if (const auto* logits = std::get_if<Logits>(&instruction)) {
      plan_codes(logits->lm_head, options_.max_logit_rows);
      vocabulary_ = logits->columns();
    } else if (const auto* clusters = std::get_if<ClusterLogits>(&instruction)) {
      vocabulary_ = clusters->table.rows;
    } else if (const auto* attend = std::get_if<Attention>(&instruction)) {
      plan_attend(*attend);
    }
  }
  const std::int64_t total =
      plan_->bytes() + code_bytes_ + code_scale_bytes_ + workspace_bytes_ + query_floats_ * 4;
  arena_ = scratch_->take(Scratch::Use::kRows, plan_->bytes());
  codes_ = {scratch_->take(Scratch::Use::kCodes, code_bytes_),
            Memory(device_, static_cast<std::size_t>(code_scale_bytes_))};
  linear_workspace_ = scratch_->take(Scratch::Use::kPartialSums, workspace_bytes_);
  queries_ = scratch_->take(Scratch::Use::kQueries, query_floats_ * 4);
  if (arena_->empty() || codes_.empty() || linear_workspace_->empty() || queries_->empty())
    return no_memory(*device_, "activations", total, "use a smaller prompt chunk");
  FT_TRY(reserve_experts());
  device_->clear(codes_.scales.at(), codes_.scales.bytes());  // rows that a step lacks have scales too
  return step_.make(device_, options_, round_, vocabulary_);
}

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            std::shared_ptr<Device> device,
                                            std::shared_ptr<WeightStore> weights,
                                            std::shared_ptr<Scratch> scratch,
                                            std::shared_ptr<RoundTokens> round, const Precision& precision) {
  using Compiled = Result<std::unique_ptr<Executable>>;
  return format::with_memory_guard("compile the program", "cuda backend", [&]() -> Compiled {
    FT_TRY(check(program));
    FT_TRY(check_supported(program));
    try {
      Compiler compiler(device, std::move(weights), std::move(scratch), round, options, precision);
      FT_ASSIGN(CompiledProgram compiled, compiler.compile(program));
      device->wait();
      return std::unique_ptr<Executable>(std::make_unique<CudaExecutable>(
          device, std::move(round), std::move(compiled), program, options.profiler));
    } catch (const DeviceError& error) {
      return Error{Code::kExhausted, error.what()};
    } catch (const BackendLost& error) {
      return Error{Code::kIo, error.what()};
    }
  });
}

}  // namespace ft::cuda
