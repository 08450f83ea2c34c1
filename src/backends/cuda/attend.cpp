// How attention becomes operations: rotations, queries and new keys, the cache in splits (kernels/attend.cu).
#include <algorithm>
#include <fmt/format.h>

#include "backends/cuda/compiler.h"
#include "backends/cuda/kernels/shared_layouts.cuh"

namespace ft::cuda {
namespace {

/// The kernels' dimensions of a head.
int attend_dims(int head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : head_dim <= 256 ? 256 : 512;
}

const char* combine_kernel(int head_dim) {
  return head_dim <= 64 ? "attend_combine_2" : head_dim <= 256 ? "attend_combine_8" : "attend_combine_16";
}

/// Tiles of queries per block: enough to read the cache once in most rounds.
int attend_tiles(int dims, int queries) {
  if (dims == 512 || queries <= kQueryTile) return 1;
  return dims == 256 && queries <= 2 * kQueryTile ? 2 : 4;
}

/// `queries`: of a segment and key/value head.
void launch_attend(Device& device, AttendArgs& args, int queries) {
  constexpr int kMaxStages = 3;
  const bool walks = args.splits == 0;
  const int dims = attend_dims(args.head_dim);
  const int tiles = walks && dims < 512 ? 4 : attend_tiles(dims, queries);
  const int block = attend_block_bytes(dims, tiles), stage = attend_stage_bytes(dims);
  args.stages = std::clamp((device.facts().shared_bytes - block) / stage, 1, kMaxStages);
  const char* const kernel =
      kernel_name(walks ? fmt::format("attend_{}_all", dims) : fmt::format("attend_{}_{}", dims, tiles));
  const Grid grid{parts_of(queries, kQueryTile * tiles) * args.kv_heads, std::max(1, args.splits),
                  args.segments};
  device.launch({kernel, grid, 256, block + args.stages * stage}, &args);
}

}  // namespace

Status Compiler::add_rotary(const Attention& op, AttendArgs& args) {
  args.half = op.rotary / 2;
  if (op.rotary == 0) return {};
  for (const Rotary& known : rotaries_) {
    if (known.op->inverse_frequencies != op.inverse_frequencies ||
        known.op->rotary_scale != op.rotary_scale || known.op->frequency_axes != op.frequency_axes)
      continue;
    args.cosines = known.cosines, args.sines = known.sines;
    return {};
  }
  RotaryArgs rotary{};
  FT_ASSIGN(rotary.frequencies,
            retain<float>(weights_->upload(op.inverse_frequencies.data(),
                                           op.inverse_frequencies.size() * sizeof(float))));
  if (!op.frequency_axes.empty()) {
    FT_ASSIGN(rotary.axes,
              retain<unsigned char>(weights_->upload(op.frequency_axes.data(), op.frequency_axes.size())));
  }
  const std::size_t bytes =
      static_cast<std::size_t>(options_.max_rows) * static_cast<std::size_t>(args.half) * 4;
  for (float** table : {&rotary.cosines, &rotary.sines}) {
    retained_.emplace_back(device_, bytes);
    if (retained_.back().empty())
      return no_memory(*device_, "activations", static_cast<std::int64_t>(bytes),
                       "use a smaller prompt chunk");
    *table = retained_.back().at<float>();
  }
  rotary.half = args.half;
  rotary.scale = op.rotary_scale;
  args.cosines = rotary.cosines, args.sines = rotary.sines;
  rotaries_.push_back({&op, rotary.cosines, rotary.sines});
  operations_.emplace_back([rotary](const StepRun& step) mutable {
    rotary.step = step.table;
    rotary.rows = step.shape.rows;
    step.device.launch({"rotary", {parts_of(std::int64_t{step.shape.rows} * rotary.half, 128)}, 128},
                       &rotary);
  });
  return {};
}

Status Compiler::make(const Attention& op) {
  AttendArgs args{};
  FT_TRY(add_rotary(op, args));
  args.q = view(op.q), args.out = view(op.out);
  if (!op.shared) args.k = view(op.k), args.v = view(op.v);
  args.sliding_window = op.sliding_window, args.causal = op.causal ? 1 : 0;
  args.shared = op.shared ? 1 : 0, args.v_norm = op.v_norm ? 1 : 0;
  FT_ASSIGN(args.q_norm, retain<float>(weights_->floats(op.q_norm)));
  FT_ASSIGN(args.k_norm, retain<float>(weights_->floats(op.k_norm)));
  FT_ASSIGN(args.sinks, retain<float>(weights_->floats(op.sinks)));
  if (!op.gains.empty()) {
    FT_ASSIGN(args.gains, retain<float>(weights_->upload(op.gains.data(), op.gains.size() * sizeof(float))));
    args.gain_count = static_cast<int>(op.gains.size());
    args.gain_span = static_cast<int>(std::min<std::int64_t>(op.gain_span, INT32_MAX));
  }
  args.queries = queries_->at<float>();
  args.block_bytes = state_plan_->block_bytes;
  args.layer_offset = state_plan_->caches[static_cast<std::size_t>(op.cache)];
  args.head_bytes = state_plan_->head_bytes[static_cast<std::size_t>(op.cache)];
  args.heads = op.heads, args.kv_heads = op.kv_heads, args.head_dim = op.head_dim;
  args.gated = op.gated ? 1 : 0, args.kv_bits = kv_bits_;
  args.eps = op.eps, args.scale = op.scale;
  const char* const prepare = op.head_dim <= 256 ? "attend_prepare_8" : "attend_prepare_16";
  const char* const combine = combine_kernel(op.head_dim);
  operations_.emplace_back([args, prepare, combine](const StepRun& step) mutable {
    args.step = step.table;
    args.cache = step.places.state->blocks();
    args.rows = step.shape.rows, args.segments = step.shape.segments;
    args.splits = step.shape.rows <= kSplitRows ? step.shape.splits : 0;
    args.partials = step.partials;
    const int items = parts_of(args.heads + (args.shared != 0 ? 0 : args.kv_heads), 4);
    step.device.launch({prepare, {items, step.shape.rows, step.shape.segments}, 128}, &args);
    launch_attend(step.device, args, step.shape.most_rows * (args.heads / args.kv_heads));
    if (args.splits > 0)
      step.device.launch({combine, {parts_of(args.heads, 4), step.shape.rows, step.shape.segments}, 128},
                         &args);
  });
  return {};
}

}  // namespace ft::cuda
