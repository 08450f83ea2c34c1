// How a program becomes a list of operations (executable.h).
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <unordered_set>

#include "backends/cuda/executable.h"
#include "backends/weight_rows.h"

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
Status check_supported(const LocalConv& /*op*/) { return lacks("local_conv"); }
Status check_supported(const ClusterLogits& /*op*/) { return lacks("cluster_logits"); }
Status check_supported(const Walk& /*op*/) { return lacks("walk"); }
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

Status CudaExecutable::build(const Program& program) {
  program_ = &program;
  plan_ = std::make_unique<RowPlan>(program, options_.max_rows);
  state_plan_ = std::make_unique<StatePlan>(program.layout(), kv_bits_);
  find_mixtures(program);
  FT_TRY(reserve(program));
  for (const Instruction& instruction : program.instructions()) {
    const std::size_t first = operations_.size();
    if (!plan_->done(number_)) FT_TRY(std::visit([this](const auto& op) { return make(op); }, instruction));
    if (const Mixture* const mixture = mixture_with(number_)) {
      leave_to_mixture(first, *mixture);
      if (number_ == mixture->last) FT_TRY(make_mixture(*mixture));
    }
    made_for_.resize(operations_.size(), number_);
    ++number_;
  }
  profile(program);
  scratch_.reserve(static_cast<std::size_t>(vocabulary_));
  program_ = nullptr;
  return {};
}

// ---- memory ----

void CudaExecutable::plan_codes(const Weight& weight, int rows) {
  if (weight.format != Format::kAffine) return;
  code_bytes_ = std::max(code_bytes_, round_up(rows, 8) * weight.cols);
  code_scale_floats_ =
      std::max(code_scale_floats_, round_up(rows, 8) / 8 * (weight.cols / weight.group) * kScaleFloats);
  const auto kind = kind_of(weight);
  if (!device_->facts().streams || !kind.ok() || !(*kind == kStreamedKind)) return;
  swizzled_bytes_ = std::max(swizzled_bytes_, (rows + kMaxAsyncRows) * (weight.cols / weight.group) * 72);
}

void CudaExecutable::plan_attend(const Attention& op) {
  query_floats_ = std::max(query_floats_, std::int64_t{options_.max_rows} * op.heads * op.head_dim);
  partial_floats_ = std::max(partial_floats_, std::int64_t{op.heads} * (op.head_dim + kPartialExtra));
}

Status CudaExecutable::reserve(const Program& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* linear = std::get_if<Linear>(&instruction)) {
      for (const Weight& weight : linear->weights)
        plan_codes(requantised_as(weight, program.max_weight_bits()), options_.max_rows);
    } else if (const auto* experts = std::get_if<MoeMlp>(&instruction)) {
      plan_experts(*experts, program.max_weight_bits());
    } else if (const auto* logits = std::get_if<Logits>(&instruction)) {
      plan_codes(logits->lm_head, options_.max_logit_rows);
      vocabulary_ = logits->columns();
    } else if (const auto* attend = std::get_if<Attention>(&instruction)) {
      plan_attend(*attend);
    }
  }
  const std::int64_t total =
      plan_->bytes() + code_bytes_ + swizzled_bytes_ + (code_scale_floats_ + query_floats_) * 4;
  arena_ = Memory(device_, static_cast<std::size_t>(plan_->bytes()));
  codes_ = Memory(device_, static_cast<std::size_t>(code_bytes_));
  code_scales_ = Memory(device_, static_cast<std::size_t>(code_scale_floats_ * 4));
  swizzled_ = Memory(device_, static_cast<std::size_t>(swizzled_bytes_));
  queries_ = Memory(device_, static_cast<std::size_t>(query_floats_ * 4));
  if (arena_.empty() || codes_.empty() || code_scales_.empty() || swizzled_.empty() || queries_.empty())
    return no_memory(*device_, "activations", total, "use a smaller prompt chunk");
  FT_TRY(reserve_experts());
  device_->clear(code_scales_.at(), code_scales_.bytes());  // rows that a step lacks have scales too
  return step_.make(device_, options_, round_, vocabulary_);
}

// ---- rows in and out ----

Status CudaExecutable::make(const Embed& op) {
  FT_ASSIGN(const std::shared_ptr<const PackedMatrix> table, weights_->matrix({&op.table}));
  packed_.push_back(table);
  EmbedArgs args{};
  if (table->kind.bits == 0) {
    args.plain = table->memory.at();
    args.plain_stride = static_cast<int>(table->padded);
  } else {
    args.records = table->memory.at<unsigned char>();
    args.groups = table->groups();
  }
  args.plain_wide = args.wide = table->kind.wide ? 1 : 0;
  args.bits = table->kind.bits, args.group = table->kind.group;
  args.out = view(op.out);
  operations_.emplace_back([this, args](const StepShape& shape, const Places& places) mutable {
    args.step = step_.table(shape);
    args.given = places.embeddings == nullptr ? nullptr : places.embeddings->data();
    device_->launch({"embed", {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
  return {};
}

Status CudaExecutable::make(const Input& op) {
  GatherArgs args{};
  args.out = view(op.out);
  operations_.emplace_back([this, args](const StepShape& shape, const Places& places) mutable {
    args.step = step_.table(shape);
    args.store = places.hidden->data(), args.store_width = places.hidden->width();
    device_->launch({"gather_rows", {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
  return {};
}

Status CudaExecutable::make(const Capture& op) {
  CaptureArgs args{};
  args.in = view(op.in);
  const auto number = static_cast<std::size_t>(op.number);
  operations_.emplace_back([this, args, number](const StepShape& shape, const Places& places) mutable {
    if (places.captures[number] == nullptr) return;
    args.step = step_.table(shape);
    args.store = places.captures[number]->data();
    device_->launch({"capture_rows", {parts_of(args.in.width, 256), shape.rows}, 256}, &args);
  });
  return {};
}

// ---- norms and what goes element by element ----

/// The group in which the next instruction wants codes of the row; 0: it wants none.
int CudaExecutable::codes_group_after(Row out) const {
  const auto& list = program_->instructions();
  const auto next = static_cast<std::size_t>(number_) + 1;
  const auto* linear = next < list.size() ? std::get_if<Linear>(&list[next]) : nullptr;
  if (linear == nullptr || linear->in.id != out.id) return 0;
  for (const Weight& stored : linear->weights) {
    const Weight weight = requantised_as(stored, program_->max_weight_bits());
    if (weight.format == Format::kAffine) return weight.group;
  }
  return 0;
}

/// Nobody reads the row itself.
bool CudaExecutable::codes_suffice(Row out, int group) const {
  if (group == 0 || plan_->readers(out) != 1) return false;
  const auto& linear = std::get<Linear>(program_->instructions()[static_cast<std::size_t>(number_) + 1]);
  return std::ranges::all_of(linear.weights, [this, group](const Weight& stored) {
    const Weight weight = requantised_as(stored, program_->max_weight_bits());
    return weight.format == Format::kAffine && weight.group == group;
  });
}

/// Where an instruction leaves the codes that the next one wants; takes `rows` away where nobody reads them.
QuantisedRowsOut CudaExecutable::codes_for_next(Row out, View& rows) {
  const int group = codes_group_after(out);
  if (group == 0) return {};
  codes_row_ = out.id, codes_group_ = group;
  if (codes_suffice(out, group)) rows.data = nullptr;
  return {codes_.at<signed char>(), code_scales_.at<float>(), out.width, group};
}

Status CudaExecutable::make(const Norm& op) {
  NormArgs args{};
  args.in = view(op.in), args.out = view(op.out);
  FT_ASSIGN(args.weight, retain<float>(weights_->floats(op.weight)));
  args.eps = op.eps;
  args.codes = codes_for_next(op.out, args.out);
  const FusedProducer producer{kFromNorm, args.in, args.weight, args.eps};
  if (args.codes.codes != nullptr) offer_producer(op.out, producer);
  operations_.emplace_back([this, args, producer = offered(op.out)](const StepShape& shape, const Places&) {
    if (makes_codes(producer, shape.rows, args.in.width)) return;
    device_->launch({"rms_norm", {shape.rows}, 256}, &args);
  });
  return {};
}

Status CudaExecutable::make(const LayerNorm& op) {
  LayerNormArgs args{view(op.in), view(op.out), nullptr, nullptr, op.eps};
  FT_ASSIGN(args.weight, retain<float>(weights_->floats(op.weight)));
  FT_ASSIGN(args.bias, retain<float>(weights_->floats(op.bias)));
  operations_.emplace_back([this, args](const StepShape& shape, const Places&) {
    device_->launch({"layer_norm", {shape.rows}, 256}, &args);
  });
  return {};
}

Status CudaExecutable::make(const GatedNorm& op) {
  GatedNormArgs args{};
  args.in = view(op.in), args.gate = view(op.gate), args.out = view(op.out);
  FT_ASSIGN(args.weight, retain<float>(weights_->floats(op.weight)));
  args.head = static_cast<int>(op.weight.cols);
  args.eps = op.eps;
  if (args.head == 128) args.codes = codes_for_next(op.out, args.out);
  const bool codes = args.codes.codes != nullptr;
  const bool joined = number_ == delta_step_end_;
  delta_step_.norm = args;
  DeltaStepArgs all = delta_step_;
  operations_.emplace_back([this, args, codes, joined, all](const StepShape& shape,
                                                            const Places& places) mutable {
    if (joined && shape.most_rows <= kDeltaStepRows) {
      all.conv.step = all.delta.step = step_.table(shape);
      all.conv.slots = all.delta.slots = places.state->slots();
      return device_->launch({"delta_step", {all.delta.value_heads, shape.segments}, 256}, &all);
    }
    args.rows = shape.rows;
    const int items = args.in.width / args.head * shape.rows;
    if (codes)
      return device_->launch({"gated_norm_codes", {parts_of(args.in.width, 512), shape.rows}, 128}, &args);
    device_->launch({"gated_norm", {parts_of(items, 8)}, 256}, &args);
  });
  return {};
}

void CudaExecutable::add_pair(const char* kernel, View a, View b, View out) {
  const PairArgs args{a, b, out, {}};
  operations_.emplace_back([this, kernel, args](const StepShape& shape, const Places&) {
    device_->launch({kernel, {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
}

Status CudaExecutable::make(const Swiglu& op) {
  PairArgs args{view(op.gate), view(op.up), view(op.out), {}};
  args.codes = codes_for_next(op.out, args.out);
  if (args.codes.codes == nullptr) return add_pair("swiglu", args.a, args.b, args.out), Status();
  operations_.emplace_back([this, args](const StepShape& shape, const Places&) {
    device_->launch({"swiglu_codes", {parts_of(args.codes.k, 512), shape.rows}, 128}, &args);
  });
  return {};
}
Status CudaExecutable::make(const Geglu& op) {
  return add_pair("geglu", view(op.gate), view(op.up), view(op.out)), Status();
}
Status CudaExecutable::make(const Add& op) {
  return add_pair("add", view(op.a), view(op.b), view(op.out)), Status();
}
Status CudaExecutable::make(const SigmoidGate& op) {
  return add_pair("sigmoid_gate", view(op.in), view(op.gate), view(op.out)), Status();
}
Status CudaExecutable::make(const Bias& op) {
  FT_ASSIGN(const float* const bias, retain<float>(weights_->floats(op.bias)));
  // One row for all: kernels only read it.
  const View same{const_cast<float*>(bias), 0, op.in.width};  // NOLINT(*-const-cast)
  return add_pair("add", view(op.in), same, view(op.out)), Status();
}

Status CudaExecutable::make(const Gelu& op) {
  const GeluArgs args{view(op.in), view(op.out), op.exact ? 1 : 0};
  operations_.emplace_back([this, args](const StepShape& shape, const Places&) {
    device_->launch({"gelu_rows", {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
  return {};
}

void CudaExecutable::add_scale(View in, View out, float factor) {
  const ScaleArgs args{in, out, factor};
  operations_.emplace_back([this, args](const StepShape& shape, const Places&) {
    device_->launch({"scale", {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
}

Status CudaExecutable::make(const Scale& op) {
  return add_scale(view(op.in), view(op.out), op.factor), Status();
}

Status CudaExecutable::make(const LocalConv& op) { return check_supported(op); }
Status CudaExecutable::make(const ClusterLogits& op) { return check_supported(op); }
Status CudaExecutable::make(const Walk& op) { return check_supported(op); }

Status CudaExecutable::make(const Slice& op) {
  View in = view(op.in);
  in.data += op.first;
  return add_scale(in, view(op.out), 1), Status();
}

Status CudaExecutable::make(const Concat& op) {
  const ConcatArgs args{view(op.a), view(op.b), view(op.out)};
  operations_.emplace_back([this, args](const StepShape& shape, const Places&) {
    device_->launch({"concat", {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
  return {};
}

// ---- recurrent layers ----

/// Whether one launch does the convolution that is being made, the delta rule and the gated norm after it.
bool CudaExecutable::begins_delta_step() const {
  const auto& list = program_->instructions();
  const auto at = static_cast<std::size_t>(number_);
  if (at + 3 >= list.size()) return false;
  const auto& conv = std::get<CausalConv1d>(list[at]);
  const auto* delta = std::get_if<DeltaRule>(&list[at + 1]);
  const auto* norm = std::get_if<GatedNorm>(&list[at + 2]);
  const auto* linear = std::get_if<Linear>(&list[at + 3]);
  if (delta == nullptr || norm == nullptr || linear == nullptr) return false;
  constexpr int kHead = 128;
  return delta->in.id == conv.out.id && plan_->readers(conv.out) == 1 && norm->in.id == delta->out.id &&
         plan_->readers(delta->out) == 1 && linear->in.id == norm->out.id && delta->key_dim == kHead &&
         delta->value_dim == kHead && norm->weight.cols == kHead &&
         std::ranges::any_of(linear->weights, [this](const Weight& stored) {
           return requantised_as(stored, program_->max_weight_bits()).format == Format::kAffine;
         });
}

Status CudaExecutable::make(const CausalConv1d& op) {
  ConvArgs args{};
  args.in = view(op.in), args.out = view(op.out);
  FT_ASSIGN(args.kernel, retain<float>(weights_->floats(op.kernel)));
  args.slot_bytes = state_plan_->slot_bytes;
  args.offset = state_plan_->conv_rings[static_cast<std::size_t>(op.state)];
  args.kernel_width = op.kernel_width;
  const bool joined = begins_delta_step();
  delta_step_.conv = args;
  delta_step_end_ = joined ? number_ + 2 : -1;
  operations_.emplace_back([this, args, joined](const StepShape& shape, const Places& places) mutable {
    if (joined && shape.most_rows <= kDeltaStepRows) return;
    args.step = step_.table(shape);
    args.slots = places.state->slots();
    const Grid grid{parts_of(args.in.width, 128), shape.segments, parts_of(shape.most_rows, kRingRows)};
    device_->launch({"conv", grid, 128}, &args);
  });
  return {};
}

Status CudaExecutable::make(const DeltaRule& op) {
  DeltaArgs args{};
  args.in = view(op.in), args.a = view(op.a), args.b = view(op.b), args.out = view(op.out);
  std::vector<float> decay(static_cast<std::size_t>(op.value_heads));
  read_rows(op.a_log, 0, 1, decay.data());
  for (float& value : decay) value = std::exp(value);
  FT_ASSIGN(args.decay, retain<float>(weights_->upload(decay.data(), decay.size() * sizeof(float))));
  FT_ASSIGN(args.dt_bias, retain<float>(weights_->floats(op.dt_bias)));
  const StatePlan::Delta& delta = state_plan_->deltas[static_cast<std::size_t>(op.state)];
  args.slot_bytes = state_plan_->slot_bytes;
  args.state_offset = delta.state, args.tape_offset = delta.tape, args.entry = delta.entry;
  args.key_heads = op.key_heads, args.value_heads = op.value_heads;
  args.key_dim = op.key_dim, args.value_dim = op.value_dim;
  const int lane_keys = padded_keys(op.key_dim) / 4, threads = lane_keys > 32 ? 256 : 384;
  const char* const kernel = kernel_name(fmt::format("delta_rule_{}", lane_keys));
  const bool joined = number_ + 1 == delta_step_end_;
  delta_step_.delta = args;
  operations_.emplace_back(
      [this, args, kernel, threads, joined](const StepShape& shape, const Places& places) mutable {
        if (joined && shape.most_rows <= kDeltaStepRows) return;
        args.step = step_.table(shape);
        args.slots = places.state->slots();
        const Grid grid{parts_of(args.value_dim, kDeltaColumns), args.value_heads, shape.segments};
        device_->launch({kernel, grid, threads}, &args);
      });
  return {};
}

}  // namespace ft::cuda
