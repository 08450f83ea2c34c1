// The instructions without a separate file, as launches.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "backends/cuda/compiler.h"
#include "backends/weight_rows.h"

namespace ft::cuda {

// ---- rows in and out ----

Status Compiler::make(const Embed& op) {
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
  args.plain_wide = table->kind.wide ? 1 : 0, args.scale_type = table->kind.scale_type;
  args.bits = table->kind.bits, args.group = table->kind.group;
  args.small_floats = table->kind.small_floats ? 1 : 0;
  args.out = view(op.out);
  operations_.emplace_back([args](const StepRun& step) mutable {
    args.step = step.table;
    args.given = step.places.embeddings == nullptr ? nullptr : step.places.embeddings->data();
    step.device.launch({"embed", {parts_of(args.out.width, 256), step.shape.rows}, 256}, &args);
  });
  return {};
}

Status Compiler::make(const Input& op) {
  GatherArgs args{};
  args.out = view(op.out);
  const auto number = static_cast<std::size_t>(op.number);
  operations_.emplace_back([args, number](const StepRun& step) mutable {
    const CudaRows& from = *step.places.hidden[number];
    args.step = step.table;
    args.store = from.data(), args.store_width = from.width();
    step.device.launch({"gather_rows", {parts_of(args.out.width, 256), step.shape.rows}, 256}, &args);
  });
  return {};
}

Status Compiler::make(const Capture& op) {
  CaptureArgs args{};
  args.in = view(op.in);
  const auto number = static_cast<std::size_t>(op.number);
  operations_.emplace_back([args, number](const StepRun& step) mutable {
    if (step.places.captures[number] == nullptr) return;
    args.step = step.table;
    args.store = step.places.captures[number]->data();
    step.device.launch({"capture_rows", {parts_of(args.in.width, 256), step.shape.rows}, 256}, &args);
  });
  return {};
}

// ---- norms and elementwise instructions ----

/// The next instruction, if it is a linear.
const Linear* Compiler::linear_after() const {
  const auto& list = program_->instructions();
  const auto next = static_cast<std::size_t>(number_) + 1;
  return next < list.size() ? std::get_if<Linear>(&list[next]) : nullptr;
}

/// The format in which the linear or the experts after this instruction read the row, if no instruction in
/// between makes other codes.
ActivationFormat Compiler::format_after(Row out) const {
  const auto& list = program_->instructions();
  for (std::size_t i = static_cast<std::size_t>(number_) + 1; i < list.size(); ++i) {
    if (const auto* experts = std::get_if<MoeMlp>(&list[i]))
      return experts->in.id == out.id ? format_of(experts->gate[0]) : ActivationFormat{};
    if (const auto* linear = std::get_if<Linear>(&list[i])) {
      if (linear->in.id != out.id) return {};
      for (const Weight& stored : linear->weights) {
        const ActivationFormat format = format_of(stored);
        if (format != ActivationFormat{}) return format;
      }
      continue;
    }
    if (!std::holds_alternative<Bias>(list[i]) && !std::holds_alternative<TopKRouter>(list[i])) return {};
  }
  return {};
}

/// Nobody reads the row itself: the next linear reads it in this format alone.
bool Compiler::only_read_in(ActivationFormat format, Row out) const {
  if (format == ActivationFormat{} || plan_->readers(out) != 1) return false;
  const Linear* const linear = linear_after();
  return linear != nullptr && std::ranges::all_of(linear->weights, [&](const Weight& stored) {
           return format_of(stored) == format;
         });
}

/// The format of rows for products with this weight, in the format in which it is multiplied.
ActivationFormat Compiler::format_of(const Weight& stored) const {
  const auto kind = kind_of(requantised_as(stored, program_->max_weight_bits()));
  return kind.ok() ? kind->activations(arithmetic_) : ActivationFormat{};
}

/// The memory for the codes that the next instruction reads; clears `rows` if only that one reads them.
QuantisedRowsOut Compiler::codes_for_next(Row out, View& rows) {
  const ActivationFormat format = format_after(out);
  if (format == ActivationFormat{}) return {};
  held_ = {out.id, format};
  if (only_read_in(format, out)) rows.data = nullptr;
  return codes_.rows(out.width, format);
}

Status Compiler::make(const Norm& op) {
  NormArgs args{};
  args.in = view(op.in), args.out = view(op.out);
  FT_ASSIGN(args.weight, retain<float>(weights_->floats(op.weight)));
  args.eps = op.eps;
  args.codes = codes_for_next(op.out, args.out);
  const FusedProducer producer{kFromNorm, args.in, args.weight, args.eps};
  if (args.codes.codes != nullptr) offer_producer(op.out, producer);
  const char* const kernel = args.codes.codes != nullptr ? maker("rms_norm", "rms_norm_half") : "rms_norm";
  operations_.emplace_back([args, kernel, producer = offered(op.out)](const StepRun& step) {
    if (makes_codes(producer, step.shape.rows, args.in.width)) return;
    step.device.launch({kernel, {step.shape.rows}, 256}, &args);
  });
  return {};
}

Status Compiler::make(const NormChain& chain) {
  NormChainArgs args{};
  args.in = view(chain.norm->in), args.sum = view(chain.sum_row());
  FT_ASSIGN(args.weight, retain<float>(weights_->floats(chain.norm->weight)));
  args.eps = chain.norm->eps;
  args.factor = chain.scale != nullptr ? chain.scale->factor : 1;
  if (chain.sum != nullptr) args.residual = view(other_of(*chain.sum, chain.norm->out));
  if (chain.second != nullptr) {
    args.second = 1, args.second_eps = chain.second->eps;
    FT_ASSIGN(args.second_weight, retain<float>(weights_->floats(chain.second->weight)));
    args.out = view(chain.second->out);
    if (arithmetic_ == Arithmetic::kCodes) args.codes = codes_for_next(chain.second->out, args.out);
  }
  operations_.emplace_back(
      [args](const StepRun& step) { step.device.launch({"norm_chain", {step.shape.rows}, 256}, &args); });
  return {};
}

Status Compiler::make(const LayerNorm& op) {
  LayerNormArgs args{view(op.in), view(op.out), nullptr, nullptr, op.eps};
  FT_ASSIGN(args.weight, retain<float>(weights_->floats(op.weight)));
  FT_ASSIGN(args.bias, retain<float>(weights_->floats(op.bias)));
  operations_.emplace_back(
      [args](const StepRun& step) { step.device.launch({"layer_norm", {step.shape.rows}, 256}, &args); });
  return {};
}

Status Compiler::make(const GatedNorm& op) {
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
  const char* const step_kernel = maker("delta_step", "delta_step_half");
  const char* const with_codes = maker("gated_norm_codes", "gated_norm_half");
  operations_.emplace_back([args, codes, joined, all, step_kernel, with_codes](const StepRun& step) mutable {
    if (joined && step.shape.most_rows <= kDeltaStepRows) {
      all.conv.step = all.delta.step = step.table;
      all.conv.slots = all.delta.slots = step.places.state->slots();
      return step.device.launch({step_kernel, {all.delta.value_heads, step.shape.segments}, 256}, &all);
    }
    args.rows = step.shape.rows;
    const int items = args.in.width / args.head * step.shape.rows;
    if (codes)
      return step.device.launch({with_codes, {parts_of(args.in.width, 512), step.shape.rows}, 128}, &args);
    step.device.launch({"gated_norm", {parts_of(items, 8)}, 256}, &args);
  });
  return {};
}

void Compiler::add_pair(const char* kernel, View a, View b, View out) {
  const PairArgs args{a, b, out, {}};
  operations_.emplace_back([kernel, args](const StepRun& step) {
    step.device.launch({kernel, {parts_of(args.out.width, 256), step.shape.rows}, 256}, &args);
  });
}

/// The kernel `with_codes` if the next linear reads codes.
void Compiler::add_gated(const char* kernel, const char* with_codes, View gate, View up, Row out) {
  PairArgs args{gate, up, view(out), {}};
  args.codes = codes_for_next(out, args.out);
  if (args.codes.codes == nullptr) return add_pair(kernel, args.a, args.b, args.out);
  operations_.emplace_back([args, with_codes](const StepRun& step) {
    step.device.launch({with_codes, {parts_of(args.codes.k, 512), step.shape.rows}, 128}, &args);
  });
}
Status Compiler::make(const Swiglu& op) {
  return add_gated("swiglu", maker("swiglu_codes", "swiglu_half"), view(op.gate), view(op.up), op.out),
         Status();
}
Status Compiler::make(const Geglu& op) {
  return add_gated("geglu", maker("geglu_codes", "geglu_half"), view(op.gate), view(op.up), op.out), Status();
}
Status Compiler::make(const Add& op) {
  return add_pair("add", view(op.a), view(op.b), view(op.out)), Status();
}
Status Compiler::make(const SigmoidGate& op) {
  return add_pair("sigmoid_gate", view(op.in), view(op.gate), view(op.out)), Status();
}
Status Compiler::make(const Bias& op) {
  FT_ASSIGN(const float* const bias, retain<float>(weights_->floats(op.bias)));
  // One row for all: kernels only read it.
  const View same{const_cast<float*>(bias), 0, op.in.width};  // NOLINT(*-const-cast)
  return add_pair("add", view(op.in), same, view(op.out)), Status();
}

Status Compiler::make(const Gelu& op) {
  const GeluArgs args{view(op.in), view(op.out), op.exact ? 1 : 0};
  operations_.emplace_back([args](const StepRun& step) {
    step.device.launch({"gelu_rows", {parts_of(args.out.width, 256), step.shape.rows}, 256}, &args);
  });
  return {};
}

void Compiler::add_scale(View in, View out, float factor) {
  const ScaleArgs args{in, out, factor};
  operations_.emplace_back([args](const StepRun& step) {
    step.device.launch({"scale", {parts_of(args.out.width, 256), step.shape.rows}, 256}, &args);
  });
}

Status Compiler::make(const Scale& op) { return add_scale(view(op.in), view(op.out), op.factor), Status(); }

Status Compiler::make(const Slice& op) {
  View in = view(op.in);
  in.data += op.first;
  return add_scale(in, view(op.out), 1), Status();
}

Status Compiler::make(const Concat& op) {
  const ConcatArgs args{view(op.a), view(op.b), view(op.out)};
  operations_.emplace_back([args](const StepRun& step) {
    step.device.launch({"concat", {parts_of(args.out.width, 256), step.shape.rows}, 256}, &args);
  });
  return {};
}

// ---- recurrent layers ----

/// Whether one launch covers the convolution in progress, the delta rule and the gated norm after it.
bool Compiler::begins_delta_step() const {
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
           return format_of(stored) != ActivationFormat{};
         });
}

Status Compiler::make(const CausalConv1d& op) {
  ConvArgs args{};
  args.in = view(op.in), args.out = view(op.out);
  FT_ASSIGN(args.kernel, retain<float>(weights_->floats(op.kernel)));
  args.slot_bytes = state_plan_->slot_bytes;
  args.offset = state_plan_->conv_rings[static_cast<std::size_t>(op.state)];
  args.kernel_width = op.kernel_width;
  const bool joined = begins_delta_step();
  delta_step_.conv = args;
  delta_step_end_ = joined ? number_ + 2 : -1;
  operations_.emplace_back([args, joined](const StepRun& step) mutable {
    if (joined && step.shape.most_rows <= kDeltaStepRows) return;
    args.step = step.table;
    args.slots = step.places.state->slots();
    const Grid grid{parts_of(args.in.width, 128), step.shape.segments,
                    parts_of(step.shape.most_rows, kRingRows)};
    step.device.launch({"conv", grid, 128}, &args);
  });
  return {};
}

Status Compiler::make(const DeltaRule& op) {
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
  operations_.emplace_back([args, kernel, threads, joined](const StepRun& step) mutable {
    if (joined && step.shape.most_rows <= kDeltaStepRows) return;
    args.step = step.table;
    args.slots = step.places.state->slots();
    const Grid grid{parts_of(args.value_dim, kDeltaColumns), args.value_heads, step.shape.segments};
    step.device.launch({kernel, grid, threads}, &args);
  });
  return {};
}

}  // namespace ft::cuda
