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

std::string attend_kernel(const char* stem, int head_dim) {
  return fmt::format("{}_{}", stem, head_dim <= 64 ? 2 : 8);
}

/// Bytes of a block's tile of keys, values, scales and queries (attend.cu).
int attend_shared_bytes(int head_dim) {
  const int dims = head_dim <= 64 ? 64 : 256;
  return kCacheRows * (2 * dims + 8) * 2 + 2 * kCacheRows * 4 + kQueryTile * dims * 4;
}

}  // namespace

Status CudaExecutable::build(const Program& program) {
  program_ = &program;
  plan_ = std::make_unique<RowPlan>(program, options_.max_rows);
  state_plan_ = std::make_unique<StatePlan>(program.layout(), kv_bits_);
  FT_TRY(reserve(program));
  for (const Instruction& instruction : program.instructions()) {
    if (!plan_->done(number_)) FT_TRY(std::visit([this](const auto& op) { return make(op); }, instruction));
    ++number_;
  }
  sampled_.resize(static_cast<std::size_t>(options_.max_logit_rows));
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
}

void CudaExecutable::plan_attend(const Attend& op) {
  query_floats_ = std::max(query_floats_, std::int64_t{options_.max_rows} * op.heads * op.head_dim);
  partial_floats_ = std::max(partial_floats_, std::int64_t{op.heads} * (op.head_dim + kPartialExtra));
}

/// What kernels do not do yet.
Status CudaExecutable::check_kernels(const Instruction& instruction) {
  std::string_view lacking;
  if (const auto* norm = std::get_if<Norm>(&instruction)) {
    if (norm->weight.empty()) lacking = "a norm without a weight";
  } else if (const auto* attend = std::get_if<Attend>(&instruction)) {
    if (attend->window > 0 || !attend->causal || attend->shared || attend->v_norm)
      lacking = "attention with a window, without a mask, over a shared cache or with normalised values";
  } else if (const auto* logits = std::get_if<Logits>(&instruction)) {
    if (logits->softcap > 0) lacking = "a soft cap of logits";
  } else if (std::holds_alternative<Route>(instruction) || std::holds_alternative<Experts>(instruction)) {
    lacking = "a mixture of experts";
  }
  if (lacking.empty()) return {};
  return Error{Code::kUnsupported,
               fmt::format("cuda backend: no kernel for {} yet; use --backend cpu", lacking)};
}

Status CudaExecutable::reserve(const Program& program) {
  int hidden = 0;
  std::vector<int> captures;
  for (const Instruction& instruction : program.instructions()) {
    FT_TRY(check_kernels(instruction));
    if (const auto* linear = std::get_if<Linear>(&instruction)) {
      for (const Weight& weight : linear->weights)
        plan_codes(requantised_as(weight, program.max_weight_bits()), options_.max_rows);
    } else if (const auto* logits = std::get_if<Logits>(&instruction)) {
      plan_codes(logits->head, options_.max_logit_rows);
      vocabulary_ = logits->columns();
    } else if (const auto* attend = std::get_if<Attend>(&instruction)) {
      if (attend->head_dim > kMaxHeadDim || attend->head_dim % 2 != 0) {
        return Error{Code::kUnsupported,
                     fmt::format("cuda backend: heads of {} numbers; it takes even ones to {}",
                                 attend->head_dim, kMaxHeadDim)};
      }
      plan_attend(*attend);
    } else if (const auto* delta = std::get_if<DeltaRule>(&instruction)) {
      if (padded_keys(delta->key_dim) == 0)
        return Error{Code::kUnsupported,
                     fmt::format("cuda backend: keys of {} numbers; it takes 256", delta->key_dim)};
    } else if (const auto* input = std::get_if<Input>(&instruction)) {
      hidden = std::max(hidden, input->out.width);
    } else if (const auto* output = std::get_if<Capture>(&instruction)) {
      captures.push_back(output->in.width);
    }
  }
  const std::int64_t total = plan_->bytes() + code_bytes_ + (code_scale_floats_ + query_floats_) * 4;
  arena_ = Memory(device_, static_cast<std::size_t>(plan_->bytes()));
  codes_ = Memory(device_, static_cast<std::size_t>(code_bytes_));
  code_scales_ = Memory(device_, static_cast<std::size_t>(code_scale_floats_ * 4));
  queries_ = Memory(device_, static_cast<std::size_t>(query_floats_ * 4));
  if (arena_.empty() || codes_.empty() || code_scales_.empty() || queries_.empty())
    return no_memory(*device_, "activations", total, "use a smaller prompt chunk");
  device_->clear(code_scales_.at(), code_scales_.bytes());  // rows that a step lacks have scales too
  return step_.make(device_, options_, hidden, captures, vocabulary_);
}

template <class T>
Result<const T*> CudaExecutable::keep(Result<Memory> memory) {
  if (!memory.ok()) return memory.error();
  kept_.push_back(std::move(*memory));
  return kept_.back().at<const T>();
}

// ---- rows in and out ----

Status CudaExecutable::make(const Embed& op) {
  FT_ASSIGN(const std::shared_ptr<const PackedMatrix> table, weights_->matrix({&op.table}));
  packed_.push_back(table);
  EmbedArgs args{};
  args.step = step_.table();
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
  operations_.emplace_back([this, args](const StepShape& shape, const CudaState&) mutable {
    args.step = step_.table();
    device_->launch({"embed", {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
  return {};
}

Status CudaExecutable::make(const Input& op) {
  const View out = view(op.out);
  operations_.emplace_back(
      [this, out](const StepShape& shape, const CudaState&) { step_.upload_hidden(shape, out); });
  return {};
}

// check_kernels has refused programs with experts before.
Status CudaExecutable::make(const Route& /*op*/) {
  return Error{Code::kUnsupported, "cuda backend: no kernel for route yet; use --backend cpu"};
}
Status CudaExecutable::make(const Experts& /*op*/) {
  return Error{Code::kUnsupported, "cuda backend: no kernel for experts yet; use --backend cpu"};
}
Status CudaExecutable::make(const SigmoidGate& /*op*/) {
  return Error{Code::kUnsupported, "cuda backend: no kernel for sigmoid_gate yet; use --backend cpu"};
}

Status CudaExecutable::make(const Scale& /*op*/) {
  return Error{Code::kUnsupported, "cuda backend: no kernel for scale yet; use --backend cpu"};
}

Status CudaExecutable::make(const Slice& /*op*/) {
  return Error{Code::kUnsupported, "cuda backend: no kernel for slice yet; use --backend cpu"};
}

Status CudaExecutable::make(const Capture& op) {
  captures_.push_back(view(op.in));
  return {};
}

Status CudaExecutable::make(const Sample&) {
  samples_ = true;
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
CodesOut CudaExecutable::codes_for_next(Row out, View& rows) {
  const int group = codes_group_after(out);
  if (group == 0) return {};
  codes_row_ = out.id, codes_group_ = group;
  if (codes_suffice(out, group)) rows.data = nullptr;
  return {codes_.at<signed char>(), code_scales_.at<float>(), out.width, group};
}

Status CudaExecutable::make(const Norm& op) {
  NormArgs args{};
  args.in = view(op.in), args.out = view(op.out);
  FT_ASSIGN(args.weight, keep<float>(weights_->floats(op.weight)));
  args.eps = op.eps;
  args.codes = codes_for_next(op.out, args.out);
  operations_.emplace_back([this, args](const StepShape& shape, const CudaState&) {
    device_->launch({"rms_norm", {shape.rows}, 256}, &args);
  });
  return {};
}

Status CudaExecutable::make(const GatedNorm& op) {
  GatedNormArgs args{};
  args.in = view(op.in), args.gate = view(op.gate), args.out = view(op.out);
  FT_ASSIGN(args.weight, keep<float>(weights_->floats(op.weight)));
  args.head = static_cast<int>(op.weight.cols);
  args.eps = op.eps;
  if (args.head == 128) args.codes = codes_for_next(op.out, args.out);
  const bool codes = args.codes.codes != nullptr;
  operations_.emplace_back([this, args, codes](const StepShape& shape, const CudaState&) mutable {
    args.rows = shape.rows;
    const int items = args.in.width / args.head * shape.rows;
    if (codes)
      return device_->launch({"gated_norm_codes", {parts_of(args.in.width, 2048), shape.rows}, 128}, &args);
    device_->launch({"gated_norm", {parts_of(items, 8)}, 256}, &args);
  });
  return {};
}

void CudaExecutable::add_pair(const char* kernel, Row a, Row b, Row out) {
  const PairArgs args{view(a), view(b), view(out), {}};
  operations_.emplace_back([this, kernel, args](const StepShape& shape, const CudaState&) {
    device_->launch({kernel, {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
}

Status CudaExecutable::make(const Swiglu& op) {
  PairArgs args{view(op.gate), view(op.up), view(op.out), {}};
  args.codes = codes_for_next(op.out, args.out);
  if (args.codes.codes == nullptr) return add_pair("swiglu", op.gate, op.up, op.out), Status();
  operations_.emplace_back([this, args](const StepShape& shape, const CudaState&) {
    device_->launch({"swiglu_codes", {parts_of(args.codes.k, 2048), shape.rows}, 128}, &args);
  });
  return {};
}
Status CudaExecutable::make(const Geglu& op) { return add_pair("geglu", op.gate, op.up, op.out), Status(); }
Status CudaExecutable::make(const Add& op) { return add_pair("add", op.a, op.b, op.out), Status(); }

Status CudaExecutable::make(const Concat& op) {
  const ConcatArgs args{view(op.a), view(op.b), view(op.out)};
  operations_.emplace_back([this, args](const StepShape& shape, const CudaState&) {
    device_->launch({"concat", {parts_of(args.out.width, 256), shape.rows}, 256}, &args);
  });
  return {};
}

// ---- attention ----

Status CudaExecutable::add_rotary(const Attend& op, AttendArgs& args) {
  args.half = op.rotary / 2;
  if (op.rotary == 0) return {};
  for (const Rotary& known : rotaries_) {
    if (known.op->inverse_frequencies != op.inverse_frequencies || known.op->rotary_scale != op.rotary_scale)
      continue;
    args.cosines = known.cosines, args.sines = known.sines;
    return {};
  }
  RotaryArgs rotary{};
  FT_ASSIGN(rotary.frequencies, keep<float>(weights_->upload(op.inverse_frequencies.data(),
                                                             op.inverse_frequencies.size() * sizeof(float))));
  const std::size_t bytes =
      static_cast<std::size_t>(options_.max_rows) * static_cast<std::size_t>(args.half) * 4;
  for (float** table : {&rotary.cosines, &rotary.sines}) {
    kept_.emplace_back(device_, bytes);
    if (kept_.back().empty())
      return no_memory(*device_, "activations", static_cast<std::int64_t>(bytes),
                       "use a smaller prompt chunk");
    *table = kept_.back().at<float>();
  }
  rotary.half = args.half;
  rotary.scale = op.rotary_scale;
  args.cosines = rotary.cosines, args.sines = rotary.sines;
  rotaries_.push_back({&op, rotary.cosines, rotary.sines});
  operations_.emplace_back([this, rotary](const StepShape& shape, const CudaState&) mutable {
    rotary.step = step_.table();
    rotary.rows = shape.rows;
    device_->launch({"rotary", {parts_of(std::int64_t{shape.rows} * rotary.half, 128)}, 128}, &rotary);
  });
  return {};
}

Status CudaExecutable::make(const Attend& op) {
  AttendArgs args{};
  FT_TRY(add_rotary(op, args));
  args.q = view(op.q), args.k = view(op.k), args.v = view(op.v), args.out = view(op.out);
  FT_ASSIGN(args.q_norm, keep<float>(weights_->floats(op.q_norm)));
  FT_ASSIGN(args.k_norm, keep<float>(weights_->floats(op.k_norm)));
  args.queries = queries_.at<float>();
  args.block_bytes = state_plan_->block_bytes;
  args.layer_offset = state_plan_->caches[static_cast<std::size_t>(op.cache)];
  args.head_bytes = state_plan_->head_bytes[static_cast<std::size_t>(op.cache)];
  args.heads = op.heads, args.kv_heads = op.kv_heads, args.head_dim = op.head_dim;
  args.gated = op.gated ? 1 : 0, args.kv_bits = kv_bits_;
  args.eps = op.eps, args.scale = op.scale;
  const char* const attend = kernel_name(attend_kernel("attend", op.head_dim));
  const char* const combine = kernel_name(attend_kernel("attend_combine", op.head_dim));
  const int shared = attend_shared_bytes(op.head_dim);
  operations_.emplace_back(
      [this, args, attend, combine, shared](const StepShape& shape, const CudaState& state) mutable {
        args.step = step_.table();
        args.cache = state.blocks();
        args.rows = shape.rows, args.segments = shape.segments;
        args.splits = shape.rows <= kSplitRows ? shape.splits : 0;
        args.partials = partials_.at<float>();
        const int items = parts_of(args.heads + args.kv_heads, 4);
        device_->launch({"attend_prepare", {items, shape.rows, shape.segments}, 128}, &args);
        const int tiles = parts_of(std::int64_t{shape.most_rows} * args.heads / args.kv_heads, kQueryTile);
        device_->launch(
            {attend, {tiles * args.kv_heads, std::max(1, args.splits), shape.segments}, 256, shared}, &args);
        if (args.splits > 0)
          device_->launch({combine, {parts_of(args.heads, 4), shape.rows, shape.segments}, 128}, &args);
      });
  return {};
}

// ---- recurrent layers ----

Status CudaExecutable::make(const Conv& op) {
  ConvArgs args{};
  args.in = view(op.in), args.out = view(op.out);
  FT_ASSIGN(args.kernel, keep<float>(weights_->floats(op.kernel)));
  args.slot_bytes = state_plan_->slot_bytes;
  args.offset = state_plan_->windows[static_cast<std::size_t>(op.state)];
  args.kernel_width = op.kernel_width;
  operations_.emplace_back([this, args](const StepShape& shape, const CudaState& state) mutable {
    args.step = step_.table();
    args.slots = state.slots();
    device_->launch({"conv", {parts_of(args.in.width, 128), shape.segments}, 128}, &args);
  });
  return {};
}

Status CudaExecutable::make(const DeltaRule& op) {
  DeltaArgs args{};
  args.in = view(op.in), args.a = view(op.a), args.b = view(op.b), args.out = view(op.out);
  std::vector<float> decay(static_cast<std::size_t>(op.value_heads));
  read_rows(op.a_log, 0, 1, decay.data());
  for (float& value : decay) value = std::exp(value);
  FT_ASSIGN(args.decay, keep<float>(weights_->upload(decay.data(), decay.size() * sizeof(float))));
  FT_ASSIGN(args.dt_bias, keep<float>(weights_->floats(op.dt_bias)));
  const StatePlan::Delta& delta = state_plan_->deltas[static_cast<std::size_t>(op.state)];
  args.slot_bytes = state_plan_->slot_bytes;
  args.state_offset = delta.state, args.tape_offset = delta.tape, args.entry = delta.entry;
  args.key_heads = op.key_heads, args.value_heads = op.value_heads;
  args.key_dim = op.key_dim, args.value_dim = op.value_dim;
  const char* const kernel = kernel_name(fmt::format("delta_rule_{}", padded_keys(op.key_dim) / 4));
  operations_.emplace_back([this, args, kernel](const StepShape& shape, const CudaState& state) mutable {
    args.step = step_.table();
    args.slots = state.slots();
    device_->launch({kernel, {parts_of(args.value_dim, 32), args.value_heads, shape.segments}, 128}, &args);
  });
  return {};
}

// ---- the head ----

/// The rows of the head that have fixed columns: those of the whole head, if they are its first ones.
Result<std::shared_ptr<const PackedMatrix>> CudaExecutable::head_of(const Logits& op) {
  const auto count = std::ssize(op.ids);
  if (op.ids.empty() || op.ids.back() == count - 1) return weights_->matrix({&op.head});
  FT_ASSIGN(const std::shared_ptr<PackedMatrix> matrix, weights_->room(op.head, count));
  weights_->pack_rows(op.head, op.ids, 0, *matrix);
  return std::shared_ptr<const PackedMatrix>(matrix);
}

Status CudaExecutable::make_spare(const Logits& op) {
  extra_ = ExtraIdTable(op);
  if (extra_.empty()) return {};
  spare_head_ = op.head;
  FT_ASSIGN(spare_matrix_, weights_->room(op.head, op.extra.count));
  order_ = Memory(device_, static_cast<std::size_t>(vocabulary_) * sizeof(int));
  if (order_.empty())
    return no_memory(*device_, "the order of columns", vocabulary_ * 4, "use a smaller model");
  fill_spare({});
  return {};
}

Status CudaExecutable::make(const Logits& op) {
  ids_ = op.tokens();
  Product product;
  FT_ASSIGN(product.matrix, head_of(op));
  const std::int64_t fixed = op.ids.empty() ? op.head.rows : std::ssize(op.ids);
  fixed_columns_ = round_up(fixed, kTileOutputs);
  FT_TRY(make_spare(op));
  const std::int64_t extra = round_up(op.extra.count, kTileOutputs), columns = fixed_columns_ + extra;
  logits_memory_ = Memory(device_, static_cast<std::size_t>(columns * options_.max_logit_rows * 4));
  if (logits_memory_.empty())
    return no_memory(*device_, "logits", columns * options_.max_logit_rows * 4, "use a smaller prompt chunk");
  const View all{logits_memory_.at<float>(), static_cast<int>(columns), static_cast<int>(vocabulary_)};
  product.in = view(op.in);
  product.out = all;
  product.outputs = static_cast<int>(fixed);
  product.logit_rows = true;
  add_product(product, op.in.id);
  logits_ = all;
  if (extra_.empty()) return {};
  Product rest = product;
  rest.matrix = spare_matrix_;
  rest.out.data += fixed_columns_;
  rest.outputs = op.extra.count;
  add_product(rest, op.in.id);
  kept_.emplace_back(device_, static_cast<std::size_t>(vocabulary_ * options_.max_logit_rows * 4));
  if (kept_.back().empty()) return no_memory(*device_, "logits", vocabulary_ * 4, "use a smaller model");
  logits_ = {kept_.back().at<float>(), static_cast<int>(vocabulary_), static_cast<int>(vocabulary_)};
  const ArrangeArgs args{all, logits_, order_.at<int>()};
  operations_.emplace_back([this, args](const StepShape& shape, const CudaState&) {
    if (shape.logit_rows > 0)
      device_->launch({"arrange", {parts_of(args.to.width, 256), shape.logit_rows}, 256}, &args);
  });
  return {};
}

}  // namespace ft::cuda
