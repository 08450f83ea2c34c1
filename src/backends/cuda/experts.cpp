// A mixture of experts (kernels/experts.cu): the experts' matrices are one packed matrix, gate and up of an
// expert side by side where they are stored alike; a step's (row, expert) pairs are sorted into tiles of one
// expert once for all three products.
#include <algorithm>
#include <fmt/format.h>

#include "backends/cuda/compiler.h"

namespace ft::cuda {
namespace {

/// Tiles that `pairs` pairs need at most: each expert has at most one that is not full.
int max_expert_tiles(std::int64_t pairs, std::int64_t experts) {
  return static_cast<int>(std::min(pairs, experts + pairs / kExpertTileRows));
}

}  // namespace

Status Compiler::make(const TopKRouter& op) {
  static_assert(kMinRouterMass == kMinRouterSum);
  RouteArgs args{view(op.scores),         view(op.out), nullptr,   op.chosen,
                 op.renormalised ? 1 : 0, nullptr,      op.factor, op.score == RouterScore::kSigmoid ? 1 : 0};
  FT_ASSIGN(args.scale, retain<float>(weights_->floats(op.scale)));
  FT_ASSIGN(args.bias, retain<float>(weights_->floats(op.selection_bias)));
  operations_.emplace_back(
      [args](const StepRun& step) { step.device.launch({"route", {step.shape.rows}, 256}, &args); });
  return {};
}

// ---- memory ----

void Compiler::plan_experts(const MoeMlp& op, int max_weight_bits) {
  const std::int64_t pairs = std::int64_t{options_.max_rows} * op.chosen();
  const auto count = static_cast<std::int64_t>(op.gate.size());
  for (const Weight* weight : {&op.gate[0], &op.up[0]})
    plan_codes(requantised_as(*weight, max_weight_bits), options_.max_rows);
  plan_codes(requantised_as(op.down[0], max_weight_bits), static_cast<int>(pairs));
  ExpertSizes& sizes = expert_sizes_;
  sizes.pairs = std::max(sizes.pairs, pairs);
  sizes.expert_tiles = std::max<std::int64_t>(sizes.expert_tiles, max_expert_tiles(pairs, count));
  sizes.experts = std::max(sizes.experts, count);
  sizes.inner_floats = std::max(sizes.inner_floats, pairs * 2 * round_up(op.size(), kTileOutputs));
  sizes.out_floats = std::max(sizes.out_floats, pairs * round_up(op.out.width, kTileOutputs));
}

Status Compiler::reserve_experts() {
  const ExpertSizes& sizes = expert_sizes_;
  if (sizes.pairs == 0) return {};
  const std::int64_t ints = sizes.expert_tiles * (1 + kExpertTileRows) + 2 * sizes.experts;
  expert_rows_ = Memory(device_, static_cast<std::size_t>((sizes.inner_floats + sizes.out_floats) * 4));
  expert_tile_memory_ = Memory(device_, static_cast<std::size_t>(ints * 4));
  mixture_rows_ = Memory(device_, static_cast<std::size_t>(mixture_bytes_));
  if (!expert_rows_.empty() && !expert_tile_memory_.empty() && !mixture_rows_.empty()) {
    device_->clear(mixture_rows_.at(), mixture_rows_.bytes());  // a block copies routes that a step lacks too
    return {};
  }
  return no_memory(*device_, "rows of experts",
                   (sizes.inner_floats + sizes.out_floats + ints) * 4 + mixture_bytes_,
                   "use a smaller prompt chunk");
}

ExpertTiles TileMemory::of(int rows, int chosen, int experts) const {
  return {at, at + tiles, max_expert_tiles(std::int64_t{rows} * chosen, experts)};
}

// ---- launches ----

void Compiler::add_expert_product(const ExpertProduct& product, int chosen, int experts) {
  const PackedMatrix& matrix = *product.matrix;
  if (std::ranges::find(packed_, product.matrix) == packed_.end()) packed_.push_back(product.matrix);
  const WeightKind kind = matrix.kind;
  ExpertArgs args{};
  args.records = matrix.memory.at<unsigned char>();
  args.codes = codes_.codes->at<signed char>();
  args.scales = codes_.scales.at<float>();
  args.in = product.in, args.out = product.out;
  args.pairs_a_row = product.pairs_a_row;
  args.tiles = product.tiles;
  args.wide = kind.wide ? 1 : 0;
  args.k = static_cast<int>(matrix.cols), args.padded = static_cast<int>(matrix.padded);
  if (kind.bits != 0) args.groups = matrix.groups();
  const char* const family = arithmetic_ == Arithmetic::kHalves ? "expert_half" : "expert";
  const char* const kernel = kind.bits == 0 ? "expert_plain"
                             : kind.small_floats
                                 ? kernel_name(fmt::format("{}_e2m1", family))
                                 : kernel_name(fmt::format("{}_{}_{}_{}", family, kind.bits, kind.group,
                                                           static_cast<int>(kind.scale_type)));
  const int blocks = kind.bits == 0 ? product.tiles * kTileOutputs / 8 : product.tiles;
  operations_.emplace_back([=, memory = tile_memory()](const StepRun& step) mutable {
    args.expert_tiles = memory.of(step.shape.rows, chosen, experts);
    step.device.launch({kernel, {blocks, args.expert_tiles.count}, 256}, &args);
  });
}

/// Makes the rows that `down` reads: codes, or floats in place of the gate, where each thread overwrites the
/// values that it has read.
Status Compiler::add_activation(const MoeMlp& op, View gate, View up, const WeightKind& down) {
  ExpertActivationArgs args{view(op.routes), gate, up,       nullptr,  nullptr,
                            op.chosen(),     0,    op.alpha, op.limit, {}};
  args.activation = op.activation == Activation::kSilu       ? kExpertSilu
                    : op.activation == Activation::kGeluTanh ? kExpertGelu
                                                             : kExpertClamped;
  FT_ASSIGN(args.gate_bias, retain<float>(weights_->floats(op.gate_bias)));
  FT_ASSIGN(args.up_bias, retain<float>(weights_->floats(op.up_bias)));
  if (down.bits != 0) {
    held_ = {};
    args.codes = codes_.rows(gate.width, down.activations(arithmetic_));
    const char* const kernel = maker("activate_experts_codes", "activate_experts_half");
    operations_.emplace_back([args, kernel](const StepRun& step) {
      const Grid grid{parts_of(args.codes.k, 512), step.shape.rows * args.chosen};
      step.device.launch({kernel, grid, 128}, &args);
    });
    return {};
  }
  operations_.emplace_back([args](const StepRun& step) {
    const Grid grid{parts_of(args.gate.width, 256), step.shape.rows * args.chosen};
    step.device.launch({"activate_experts", grid, 256}, &args);
  });
  return {};
}

Status Compiler::add_expert_products(const std::vector<const Weight*>& weights, ExpertProduct product,
                                     const MoeMlp& op) {
  const int count = static_cast<int>(op.gate.size());
  FT_ASSIGN(product.matrix, weights_->matrix(weights));
  product.tiles = static_cast<int>(product.matrix->outputs / kTileOutputs) / count;
  add_expert_product(product, op.chosen(), count);
  return {};
}

void Compiler::add_expert_tiles(const MoeMlp& op) {
  ExpertTilesArgs args{};
  args.routes = view(op.routes);
  args.chosen = op.chosen(), args.experts = static_cast<int>(op.gate.size());
  args.sizes = expert_tile_memory_.at<int>() + expert_sizes_.expert_tiles * (1 + kExpertTileRows);
  args.firsts = args.sizes + expert_sizes_.experts;
  operations_.emplace_back([args, memory = tile_memory()](const StepRun& step) mutable {
    args.rows = step.shape.rows;
    args.to = memory.of(step.shape.rows, args.chosen, args.experts);
    step.device.launch({"tile_pairs", {1}, 256}, &args);
  });
}

namespace {

/// One matrix of each expert, as it is multiplied; all are of one kind.
struct ExpertList {
  std::vector<Weight> weights;
  WeightKind kind;
  std::vector<const Weight*> pointers() const {
    std::vector<const Weight*> all;
    for (const Weight& weight : weights) all.push_back(&weight);
    return all;
  }
};

Result<ExpertList> list_of(const std::vector<Weight>& stored, WeightStore& store, int max_weight_bits) {
  ExpertList list;
  for (const Weight& weight : stored) list.weights.push_back(store.reduced(weight, max_weight_bits));
  FT_ASSIGN(list.kind, kind_of(list.weights[0]));
  return list;
}

std::vector<const Weight*> side_by_side(const ExpertList& a, const ExpertList& b) {
  std::vector<const Weight*> both;
  for (std::size_t i = 0; i < a.weights.size(); ++i) both.insert(both.end(), {&a.weights[i], &b.weights[i]});
  return both;
}

}  // namespace

/// activation(gate * in) * (up * in) of each pair, where `gates` is, or its codes.
Status Compiler::add_inner(const MoeMlp& op, View gates, View ups, const WeightKind& down) {
  FT_ASSIGN(const ExpertList gate, list_of(op.gate, *weights_, program_->max_weight_bits()));
  FT_ASSIGN(const ExpertList up, list_of(op.up, *weights_, program_->max_weight_bits()));
  ExpertProduct product{{}, 0, view(op.in), gates, op.chosen()};
  const auto codes = [&](const WeightKind& kind) {
    if (kind.bits != 0) add_codes(product.in, op.in.id, kind.activations(arithmetic_), false, {});
  };
  codes(gate.kind);
  if (gate.kind == up.kind) {
    FT_TRY(add_expert_products(side_by_side(gate, up), product, op));
  } else {
    FT_TRY(add_expert_products(gate.pointers(), product, op));
    codes(up.kind);
    product.out = ups;
    FT_TRY(add_expert_products(up.pointers(), product, op));
  }
  return add_activation(op, gates, ups, down);
}

/// Gate and up of each expert side by side, or down of each.
Result<std::shared_ptr<const PackedMatrix>> Compiler::experts_matrix(const MoeMlp& op, bool inner,
                                                                     int max_bits) {
  FT_ASSIGN(const ExpertList first, list_of(inner ? op.gate : op.down, *weights_, max_bits));
  if (!inner) return weights_->matrix(first.pointers());
  FT_ASSIGN(const ExpertList second, list_of(op.up, *weights_, max_bits));
  return weights_->matrix(side_by_side(first, second));
}

Status Compiler::make(const MoeMlp& op) {
  const auto mixture = std::ranges::find(mixtures_, number_, &Mixture::experts);
  if (mixture != mixtures_.end() && mixture->shared < 0)
    mixture_codes_there_ = held_ == HeldRow{op.in.id, kStreamedKind.activations(arithmetic_)};
  add_expert_tiles(op);
  const int size = op.size(), padded = static_cast<int>(round_up(size, kTileOutputs));
  float* const rows = expert_rows_.at<float>();
  const View gates{rows, 2 * padded, size}, ups{rows + padded, 2 * padded, size};
  FT_ASSIGN(const ExpertList down, list_of(op.down, *weights_, program_->max_weight_bits()));
  FT_TRY(add_inner(op, gates, ups, down.kind));
  const View outs{rows + expert_sizes_.inner_floats, static_cast<int>(round_up(op.out.width, kTileOutputs)),
                  op.out.width};
  FT_TRY(add_expert_products(down.pointers(), {{}, 0, gates, outs, 1}, op));
  const Add* const sum = plan_->sum_of(number_);
  ExpertSumArgs args{view(op.routes), outs,        view(sum != nullptr ? sum->out : op.out),
                     nullptr,         op.chosen(), {}};
  if (sum != nullptr) args.residual = view(other_of(*sum, op.out));
  FT_ASSIGN(args.bias, retain<float>(weights_->floats(op.down_bias)));
  operations_.emplace_back([args](const StepRun& step) {
    step.device.launch({"sum_experts", {parts_of(args.out.width, 256), step.shape.rows}, 256}, &args);
  });
  return {};
}

}  // namespace ft::cuda
