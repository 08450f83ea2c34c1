// The launches of each instruction. Kernels and their buffers: backends/metal/kernels/*.h.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "backends/metal/executable.h"
#include "backends/metal/rows.h"
#include "base/assert.h"

namespace ft::metal {
namespace {

constexpr unsigned kThreads = 256, kLanes = 32, kTile = 32, kChunkRows = 256;

unsigned over(std::size_t count, unsigned part) { return static_cast<unsigned>((count + part - 1) / part); }
unsigned number(std::int64_t value) { return static_cast<unsigned>(value); }

/// A thread for each element of [rows, width].
Grid elements(unsigned width, unsigned rows) { return {over(width, kThreads), rows, 1}; }

void combine(const Step& step, const char* kernel, Row x, Row other, Row y, float factor) {
  const CombineArgs args{step.rows,           number(y.width), number(x.width),
                         number(other.width), number(y.width), factor};
  launch(step, kernel, {step.row(x), step.row(other), step.row(y)}, as_args(args),
         elements(args.width, step.rows), kThreads);
}

/// `width` columns of x from `first` on become columns of y from `to` on.
void copy_columns(const Step& step, Row x, int first, Row y, int to, int width) {
  const CombineArgs args{step.rows, number(width), number(x.width), 0, number(y.width), 0};
  Place in = step.row(x), out = step.row(y);
  in.offset += static_cast<std::size_t>(first) * sizeof(float);
  out.offset += static_cast<std::size_t>(to) * sizeof(float);
  launch(step, "combine_copy", {in, in, out}, as_args(args), elements(args.width, step.rows), kThreads);
}

LinearArgs linear_args(const PackedMatrix& matrix, unsigned rows, std::size_t y_stride) {
  LinearArgs args{};
  args.rows = rows;
  args.inputs = args.x_stride = number(matrix.cols);
  args.outputs = number(matrix.rows);
  args.y_stride = static_cast<unsigned>(y_stride);
  args.group = matrix.group;
  args.scales = matrix.scale_kind;
  return args;
}

/// Sums of x by group, if the matrix has biases.
Place sums_of(const Step& step, const PackedMatrix& matrix, Place x, unsigned rows) {
  const unsigned groups = over(static_cast<std::size_t>(matrix.cols), matrix.group);
  const Place sums = step.scratch->take("sums", std::size_t{rows} * groups * sizeof(float));
  if (!matrix.affine) return sums;
  const LinearArgs args = linear_args(matrix, rows, 0);
  launch(step, "group_sums", {x, sums}, as_args(args), {over(groups, kThreads), rows, 1}, kThreads);
  return sums;
}

void dispatch(const Step& step, int kernel, std::initializer_list<Place> buffers,
              std::span<const std::byte> args, Grid grid, unsigned threads) {
  FT_ASSERT(kernel >= 0);
  step.device->dispatch(kernel, {buffers.begin(), buffers.size()}, args, grid, static_cast<int>(threads));
}

/// One matrix of each chosen expert: y [rows * chosen, outputs].
void multiply_routed(const Step& step, const MoeMlp& op, const PackedMatrix& matrix, Place x, Place y,
                     bool x_per_row) {
  const unsigned chosen = number(op.chosen()), pairs = step.rows * chosen;
  LinearArgs args = linear_args(matrix, x_per_row ? step.rows : pairs, static_cast<std::size_t>(matrix.rows));
  args.chosen = chosen;
  args.x_per_row = x_per_row ? 1 : 0;
  args.codes_each = static_cast<unsigned>(matrix.codes_each);
  args.scales_each = static_cast<unsigned>(matrix.scales_each);
  const Place sums = sums_of(step, matrix, x, args.rows);
  dispatch(step, matrix.kernels.routed,
           {matrix.codes.at(), matrix.scales.at(), x, sums, step.row(op.routes), y}, as_args(args),
           {over(static_cast<std::size_t>(matrix.rows), kTile), pairs, 1}, kThreads);
}

int pieces_of(int head_dim) {
  for (const int pieces : {1, 2, 4, 8, 16}) {
    if (head_dim <= pieces * static_cast<int>(kLanes)) return pieces;
  }
  return 0;
}

AttendArgs attend_args(const Step& step, const Attention& op, unsigned chunks) {
  AttendArgs args{};
  args.rows = step.rows;
  args.heads = number(op.heads), args.kv_heads = number(op.kv_heads), args.head_dim = number(op.head_dim);
  args.rotary = number(op.rotary);
  args.q_stride = number(op.q.width), args.k_stride = number(op.k.width), args.v_stride = number(op.v.width);
  args.y_stride = number(op.out.width);
  args.gated = op.gated ? 1 : 0;
  args.normalises_q = op.q_norm.empty() ? 0 : 1;
  args.normalises_k = op.k_norm.empty() ? 0 : 1;
  args.normalises_v = op.v_norm ? 1 : 0;
  args.shared = op.shared ? 1 : 0;
  args.chunks = chunks;
  args.block_halves = step.state->plan().block_halves;
  args.base = step.state->plan().caches[static_cast<std::size_t>(op.cache)];
  args.eps = op.eps, args.scale = op.scale;
  return args;
}

void take(const Step& step, const char* name, const RowPlaces& from, Row out) {
  const auto& store = *static_cast<const MetalRows*>(from.store);
  const PlaceArgs args{step.rows, number(out.width), number(store.width()), number(out.width)};
  launch(step, "take_rows", {store.at(), step.memory->places(name, from.places), step.row(out)},
         as_args(args), elements(args.width, step.rows), kThreads);
}

/// The optional vectors of an attend in order of describe().
std::array<Place, 2> norms_of(const Attention& op, const Parts& parts, Place absent) {
  std::array<Place, 2> found{absent, absent};
  std::size_t next = 0;
  if (!op.q_norm.empty()) found[0] = parts.vectors[next++].at();
  if (!op.k_norm.empty()) found[1] = parts.vectors[next].at();
  return found;
}

/// The kernels that an instruction launches by name; its matrices' kernels come with the weights.
struct Launched {
  using Names = std::vector<std::string>;
  Names operator()(const Embed&) const { return {"take_rows"}; }
  Names operator()(const Input&) const { return {"take_rows"}; }
  Names operator()(const Norm&) const { return {"rms_norm"}; }
  Names operator()(const LayerNorm&) const { return {"layer_norm"}; }
  Names operator()(const Linear&) const { return {"group_sums"}; }
  Names operator()(const Attention& op) const {
    const int pieces = pieces_of(op.head_dim);
    return {"attend_prepare", fmt::format("attend_chunk_{}", pieces),  // 16-bit keys and values
            "attend_prepare8", fmt::format("attend_chunk8_{}", pieces), "attend_merge"};
  }
  Names operator()(const CausalConv1d&) const { return {"conv"}; }
  Names operator()(const DeltaRule& op) const {
    return {"delta_prepare", fmt::format("delta_rule_{}", keys_of_lane(op.key_dim))};
  }
  Names operator()(const GatedNorm&) const { return {"gated_norm"}; }
  Names operator()(const Swiglu&) const { return {"combine_swiglu"}; }
  Names operator()(const Geglu&) const { return {"combine_geglu"}; }
  Names operator()(const Add&) const { return {"combine_add"}; }
  Names operator()(const SigmoidGate&) const { return {"combine_gated"}; }
  Names operator()(const Gelu& op) const { return {op.exact ? "combine_gelu_exact" : "combine_gelu"}; }
  Names operator()(const LocalConv&) const { return {}; }
  Names operator()(const ClusterLogits&) const { return {}; }
  Names operator()(const Walk&) const { return {}; }
  Names operator()(const Scale&) const { return {"combine_scaled"}; }
  Names operator()(const Bias&) const { return {"combine_biased"}; }
  Names operator()(const Concat&) const { return {"combine_copy"}; }
  Names operator()(const Slice&) const { return {"combine_copy"}; }
  Names operator()(const TopKRouter&) const { return {"route_rows"}; }
  Names operator()(const MoeMlp& op) const {
    return {"group_sums", op.activation == Activation::kSilu ? "combine_swiglu" : "combine_geglu",
            "sum_experts"};
  }
  Names operator()(const Capture&) const { return {"put_rows"}; }
  Names operator()(const Logits&) const { return {"take_rows", "group_sums", "combine_softcap"}; }
  Names operator()(const Sample&) const {
    return {"draft_tops", "draft_keep", "draft_limit", "draft_scores", "draft_choice"};
  }
};

/// Maximum threads of a threadgroup that an instruction launches: in attention a simdgroup for each query
/// head that shares a key head.
unsigned threads_of(const Instruction& instruction, std::string_view kernel) {
  const auto* const attend = std::get_if<Attention>(&instruction);
  if (attend == nullptr || !kernel.starts_with("attend_chunk")) return kThreads;
  return kLanes * number(attend->heads / attend->kv_heads);
}

}  // namespace

Status make_pipelines(const Device& device, const Program& program) {
  const auto refused = [&device](const std::string& what) {
    return Error{Code::kUnsupported,
                 fmt::format("{} backend: {} {}; use --backend cpu", device.name(), device.describe(), what)};
  };
  for (const Instruction& instruction : program.instructions()) {
    const auto* const route = std::get_if<TopKRouter>(&instruction);
    if (route != nullptr && (route->score != RouterScore::kSoftmax || route->factor != 1))
      return refused("has no kernel for routers that score by sigmoid or have a factor");
    for (const std::string& name : std::visit(Launched{}, instruction)) {
      const int kernel = device.kernel(name);
      if (kernel < 0) return refused("makes no pipeline of kernel " + name);
      const unsigned wanted = threads_of(instruction, name), max = number(device.max_threads(kernel));
      if (wanted > max)
        return refused(fmt::format("runs kernel {} with {} threads at once, not {}", name, max, wanted));
    }
  }
  return {};
}

void launch(const Step& step, std::string_view name, std::initializer_list<Place> buffers,
            std::span<const std::byte> args, Grid grid, int threads) {
  dispatch(step, step.device->kernel(name), buffers, args, grid, static_cast<unsigned>(threads));
}

void multiply(const Step& step, const PackedMatrix& matrix, Place x, Place y, unsigned rows,
              std::size_t y_stride) {
  constexpr unsigned kFew = 16, kRowsOfMany = 64;
  if (rows == 0) return;
  const Place sums = sums_of(step, matrix, x, rows);
  const LinearArgs args = linear_args(matrix, rows, y_stride);
  const MatrixKernels& kernels = matrix.kernels;
  int kernel = kernels.many;
  unsigned at_once = kRowsOfMany;
  if (rows <= kFew) {
    at_once = rows == 1 ? 1 : rows == 2 ? 2 : rows <= 4 ? 4 : 8;
    kernel = rows == 1 ? kernels.few1 : rows == 2 ? kernels.few2 : rows <= 4 ? kernels.few4 : kernels.few8;
  }
  dispatch(step, kernel, {matrix.codes.at(), matrix.scales.at(), x, sums, y}, as_args(args),
           {over(static_cast<std::size_t>(matrix.rows), kTile), over(rows, at_once), 1}, kThreads);
}

void encode(const Step& step, const Embed& op, const Parts& parts) {
  const PackedMatrix& table = *parts.matrices[0];
  const EmbedArgs args{step.rows, number(table.cols), number(op.out.width), table.group, table.scale_kind};
  dispatch(step, table.kernels.embed,
           {table.codes.at(), table.scales.at(), step.memory->tokens(), step.round, step.row(op.out)},
           as_args(args), elements(args.width, step.rows), kThreads);
  if (step.args->embeddings.store != nullptr) take(step, "embedded", step.args->embeddings, op.out);
}

void encode(const Step& step, const Input& op, const Parts&) {
  take(step, "hidden", step.args->input(op.number), op.out);
}

void encode(const Step& step, const Norm& op, const Parts& parts) {
  const NormArgs args{step.rows,
                      number(op.in.width),
                      number(op.in.width),
                      number(op.in.width),
                      0,
                      op.weight.empty() ? 0U : 1U,
                      op.eps};
  const Place weight = op.weight.empty() ? step.row(op.in) : parts.vectors[0].at();
  launch(step, "rms_norm", {step.row(op.in), weight, step.row(op.out)}, as_args(args), {1, step.rows, 1},
         kThreads);
}

void encode(const Step& step, const LayerNorm& op, const Parts& parts) {
  const NormArgs args{step.rows, number(op.in.width), number(op.in.width), number(op.in.width), 0, 1, op.eps};
  launch(step, "layer_norm",
         {step.row(op.in), parts.vectors[0].at(), parts.vectors[1].at(), step.row(op.out)}, as_args(args),
         {1, step.rows, 1}, kThreads);
}

void encode(const Step& step, const Linear& op, const Parts& parts) {
  for (std::size_t j = 0; j < op.weights.size(); ++j) {
    multiply(step, *parts.matrices[j], step.row(op.in), step.row(op.outs[j]), step.rows,
             static_cast<std::size_t>(op.outs[j].width));
  }
}

void encode(const Step& step, const Attention& op, const Parts& parts) {
  constexpr std::size_t kPartBytes = std::size_t{32} << 20;
  const unsigned chunks = over(static_cast<std::size_t>(step.memory->longest()), kChunkRows);
  AttendArgs args = attend_args(step, op, chunks);
  const Place rows = step.memory->seen(*step.args, op), blocks = step.memory->blocks(),
              cache = step.state->blocks(), q = step.row(op.q);
  const std::size_t query = std::size_t{args.heads} * args.head_dim * sizeof(float);
  const Place ready = step.scratch->take("queries", query * step.rows);
  const auto [q_norm, k_norm] = norms_of(op, parts, q);
  const bool bytes = step.state->plan().kv_bits == 8;
  launch(step, bytes ? "attend_prepare8" : "attend_prepare",
         {q, op.shared ? q : step.row(op.k), op.shared ? q : step.row(op.v), q_norm, k_norm,
          step.memory->turns(*step.args, op), rows, blocks, ready, cache},
         as_args(args), {args.heads + 2 * args.kv_heads, step.rows, 1}, kLanes);
  const std::size_t row_bytes = std::size_t{args.heads} * chunks * (args.head_dim + 2) * sizeof(float);
  const auto at_once = static_cast<unsigned>(std::max<std::size_t>(1, kPartBytes / row_bytes));
  const Place part = step.scratch->take("attended", row_bytes * std::min(at_once, step.rows));
  const std::string chunk =
      fmt::format("attend_chunk{}_{}", std::string(bytes ? 1 : 0, '8'), pieces_of(op.head_dim));
  for (; args.first_row < step.rows; args.first_row += at_once) {
    const unsigned count = std::min(at_once, step.rows - args.first_row);
    launch(step, chunk, {ready, cache, rows, blocks, part}, as_args(args), {chunks, args.kv_heads, count},
           static_cast<int>(kLanes * (args.heads / args.kv_heads)));
    launch(step, "attend_merge", {part, rows, q, step.row(op.out)}, as_args(args), {args.heads, count, 1},
           kLanes);
  }
}

void encode(const Step& step, const CausalConv1d& op, const Parts& parts) {
  const StatePlan& plan = step.state->plan();
  const ConvArgs args{number(op.in.width), number(op.kernel_width),
                      number(op.in.width), number(op.out.width),
                      plan.slot_floats,    plan.conv_rings[static_cast<std::size_t>(op.state)]};
  launch(step, "conv",
         {step.row(op.in), parts.vectors[0].at(), step.state->slots(), step.row(op.out),
          step.memory->segments()},
         as_args(args), elements(args.width, number(std::ssize(step.args->segments))), kThreads);
}

void encode(const Step& step, const DeltaRule& op, const Parts& parts) {
  constexpr unsigned kColumns = 8;
  const StatePlan::Delta place = step.state->plan().deltas[static_cast<std::size_t>(op.state)];
  DeltaArgs args{};
  args.rows = step.rows;
  args.key_heads = number(op.key_heads), args.value_heads = number(op.value_heads);
  args.key_dim = number(op.key_dim), args.value_dim = number(op.value_dim);
  args.x_stride = number(op.in.width), args.y_stride = number(op.out.width);
  args.a_stride = number(op.a.width), args.b_stride = number(op.b.width);
  args.slot_floats = step.state->plan().slot_floats;
  args.base = place.matrix, args.tape = place.tape;
  const std::size_t floats = 2 * (std::size_t{args.key_heads} * args.key_dim + args.value_heads) * step.rows;
  const Place ready = step.scratch->take("keys", floats * sizeof(float));
  launch(
      step, "delta_prepare",
      {step.row(op.in), step.row(op.a), step.row(op.b), parts.vectors[0].at(), parts.vectors[1].at(), ready},
      as_args(args), {args.key_heads, step.rows, 1}, kLanes);
  launch(step, fmt::format("delta_rule_{}", keys_of_lane(op.key_dim)),
         {step.row(op.in), ready, step.state->slots(), step.row(op.out), step.memory->segments()},
         as_args(args),
         {over(args.value_dim, kColumns), args.value_heads, number(std::ssize(step.args->segments))}, kLanes);
}

void encode(const Step& step, const GatedNorm& op, const Parts& parts) {
  const NormArgs args{
      step.rows, number(op.weight.cols), number(op.in.width), number(op.out.width), number(op.gate.width), 1,
      op.eps};
  launch(step, "gated_norm", {step.row(op.in), step.row(op.gate), parts.vectors[0].at(), step.row(op.out)},
         as_args(args), {number(op.in.width) / args.width, step.rows, 1}, kLanes);
}

void encode(const Step& step, const Swiglu& op, const Parts&) {
  combine(step, "combine_swiglu", op.gate, op.up, op.out, 0);
}
void encode(const Step& step, const Geglu& op, const Parts&) {
  combine(step, "combine_geglu", op.gate, op.up, op.out, 0);
}
void encode(const Step& step, const Add& op, const Parts&) {
  combine(step, "combine_add", op.a, op.b, op.out, 0);
}
void encode(const Step& step, const SigmoidGate& op, const Parts&) {
  combine(step, "combine_gated", op.in, op.gate, op.out, 0);
}
void encode(const Step& step, const Gelu& op, const Parts&) {
  combine(step, op.exact ? "combine_gelu_exact" : "combine_gelu", op.in, op.in, op.out, 0);
}
void encode(const Step&, const LocalConv&, const Parts&) {}  // the backend refuses it, and the next two
void encode(const Step&, const ClusterLogits&, const Parts&) {}
void encode(const Step&, const Walk&, const Parts&) {}

void encode(const Step& step, const Scale& op, const Parts&) {
  combine(step, "combine_scaled", op.in, op.in, op.out, op.factor);
}
void encode(const Step& step, const Bias& op, const Parts& parts) {
  const CombineArgs args{step.rows, number(op.in.width), number(op.in.width), 0, number(op.out.width), 0};
  launch(step, "combine_biased", {step.row(op.in), parts.vectors[0].at(), step.row(op.out)}, as_args(args),
         elements(args.width, step.rows), kThreads);
}
void encode(const Step& step, const Concat& op, const Parts&) {
  copy_columns(step, op.a, 0, op.out, 0, op.a.width);
  copy_columns(step, op.b, 0, op.out, op.a.width, op.b.width);
}
void encode(const Step& step, const Slice& op, const Parts&) {
  copy_columns(step, op.in, op.first, op.out, 0, op.width);
}

void encode(const Step& step, const TopKRouter& op, const Parts& parts) {
  const RouteArgs args{step.rows,
                       number(op.scores.width),
                       number(op.chosen),
                       number(op.scores.width),
                       number(op.out.width),
                       op.renormalised ? 1U : 0U,
                       op.scale.empty() ? 0U : 1U};
  const Place scale = op.scale.empty() ? step.row(op.scores) : parts.vectors[0].at();
  launch(step, "route_rows", {step.row(op.scores), scale, step.row(op.out)}, as_args(args), {1, step.rows, 1},
         kLanes);
}

void encode(const Step& step, const MoeMlp& op, const Parts& parts) {
  const unsigned chosen = number(op.chosen()), pairs = step.rows * chosen, size = number(op.size());
  const std::size_t inner = std::size_t{pairs} * size * sizeof(float);
  const Place gate = step.scratch->take("gates", inner), up = step.scratch->take("ups", inner),
              y = step.scratch->take(
                  "downs", std::size_t{pairs} * static_cast<std::size_t>(op.out.width) * sizeof(float));
  multiply_routed(step, op, *parts.matrices[0], step.row(op.in), gate, true);
  multiply_routed(step, op, *parts.matrices[1], step.row(op.in), up, true);
  const CombineArgs args{pairs, size, size, size, size, 0};
  launch(step, op.activation == Activation::kSilu ? "combine_swiglu" : "combine_geglu", {gate, up, gate},
         as_args(args), elements(size, pairs), kThreads);
  multiply_routed(step, op, *parts.matrices[2], gate, y, false);
  const ExpertsArgs sum{step.rows, number(op.out.width), chosen, number(op.out.width),
                        number(op.routes.width)};
  launch(step, "sum_experts", {y, step.row(op.routes), step.row(op.out)}, as_args(sum),
         elements(sum.width, step.rows), kThreads);
}

void encode(const Step& step, const Capture& op, const Parts&) {
  const CapturePlaces& capture = step.args->capture;
  RowStore* const to = capture.stores[static_cast<std::size_t>(op.number)];
  if (to == nullptr) return;
  const auto& store = *static_cast<const MetalRows*>(to);
  const PlaceArgs args{step.rows, number(op.in.width), number(op.in.width), number(store.width())};
  launch(step, "put_rows", {step.row(op.in), step.memory->places("captured", capture.places), store.at()},
         as_args(args), elements(args.width, step.rows), kThreads);
}

void encode(const Step& step, const Logits& op, const Parts& parts) {
  const auto logit_rows = number(std::ssize(step.args->logit_rows));
  if (logit_rows == 0) return;
  const std::size_t bytes = std::size_t{logit_rows} * static_cast<std::size_t>(op.in.width) * sizeof(float);
  const Place rows = step.scratch->take("logit_rows", bytes);
  const PlaceArgs take_args{logit_rows, number(op.in.width), number(op.in.width), number(op.in.width)};
  launch(step, "take_rows", {step.row(op.in), step.memory->logit_rows(), rows}, as_args(take_args),
         elements(take_args.width, logit_rows), kThreads);
  multiply(step, *parts.matrices[0], rows, step.logits, logit_rows, step.columns);
  if (op.softcap <= 0) return;
  const auto columns = static_cast<unsigned>(step.columns);
  const CombineArgs args{logit_rows, columns, columns, columns, columns, op.softcap};
  launch(step, "combine_softcap", {step.logits, step.logits, step.logits}, as_args(args),
         elements(columns, logit_rows), kThreads);
}

}  // namespace ft::metal
