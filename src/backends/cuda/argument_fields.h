// The arguments of each kernel as text, field by field: padding is left out, and a new field is not compared
// until it has a line here. Owner: tests.
#pragma once

#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "backends/cuda/arguments.h"
#include "backends/cuda/kernels/draft_arguments.cuh"

namespace ft::cuda {

#define FT_FIELDS(Type, ...)                       \
  template <class Note>                            \
  void note_fields(const Type& p, const Note& n) { \
    n(__VA_ARGS__);                                \
  }
FT_FIELDS(View, p.data, p.stride, p.width)
FT_FIELDS(StepTable, p.tokens, p.positions, p.hidden_places, p.capture_places, p.embedding_places,
          p.coordinates, p.logit_rows, p.segments, p.samples, p.blocks, p.round)
FT_FIELDS(FetchArgs, p.ring, p.table, p.turn, p.turns, p.turn_bytes, p.bytes)
FT_FIELDS(GatherArgs, p.step, p.store, p.store_width, p.out)
FT_FIELDS(CaptureArgs, p.step, p.in, p.store)
FT_FIELDS(AdjustArgs, p.step, p.logits, p.ids, p.rows, p.seen, p.biased, p.words)
FT_FIELDS(SampleArgs, p.step, p.logits, p.ids, p.adjusted, p.words, p.parts, p.tops, p.top_places, p.scores,
          p.score_tokens, p.bins, p.counts, p.values, p.tokens, p.sampled, p.mirror)
FT_FIELDS(QuantisedRowsOut, p.codes, p.scales, p.k, p.group)
FT_FIELDS(QuantiseArgs, p.in, p.rows, p.out)
FT_FIELDS(NormArgs, p.in, p.out, p.weight, p.eps, p.codes)
FT_FIELDS(NormChainArgs, p.in, p.residual, p.sum, p.weight, p.second_weight, p.eps, p.second_eps, p.factor,
          p.second, p.out, p.codes)
FT_FIELDS(LayerNormArgs, p.in, p.out, p.weight, p.bias, p.eps)
FT_FIELDS(GatedNormArgs, p.in, p.gate, p.out, p.weight, p.head, p.eps, p.rows, p.codes)
FT_FIELDS(PairArgs, p.a, p.b, p.out, p.codes)
FT_FIELDS(ConcatArgs, p.a, p.b, p.out)
FT_FIELDS(ScaleArgs, p.in, p.out, p.factor)
FT_FIELDS(GeluArgs, p.in, p.out, p.exact)
FT_FIELDS(SoftCapArgs, p.logits, p.cap)
FT_FIELDS(LocalConvArgs, p.step, p.in, p.coefficients, p.out, p.base, p.taps, p.groups, p.group_size, p.side)
FT_FIELDS(TablePlace, p.records, p.plain, p.stride, p.wide, p.groups, p.bits, p.group, p.scale_type)
FT_FIELDS(ClusterArgs, p.step, p.in, p.routes, p.logits, p.table, p.tokens, p.chosen, p.size, p.softcap)
FT_FIELDS(WalkArgs, p.sample, p.factors, p.predecessor, p.successor, p.rank, p.candidates, p.excluded,
          p.logit_rows, p.part_values, p.part_columns, p.values, p.columns)
FT_FIELDS(PackArgs, p.raw, p.scales, p.biases, p.records, p.row_bytes, p.rows, p.cols, p.first_tile, p.tiles,
          p.raw_bits, p.bits, p.group, p.scale_bytes, p.scale_half, p.scale_type)
FT_FIELDS(EmbedArgs, p.step, p.records, p.plain, p.plain_wide, p.plain_stride, p.groups, p.bits, p.group,
          p.scale_type, p.given, p.out)
FT_FIELDS(LinearArgs, p.records, p.codes, p.scales, p.out, p.residual, p.tiles, p.groups, p.rows, p.outputs)
FT_FIELDS(FusedProducer, p.kind, p.in, p.weight, p.eps)
FT_FIELDS(StreamArgs, p.linear, p.producer, p.stages, p.early)
FT_FIELDS(SplitKGemmArgs, p.linear, p.stages, p.early)
FT_FIELDS(GemmArgs, p.linear, p.stages)
FT_FIELDS(SwizzleArgs, p.codes, p.scales, p.out, p.rows, p.groups, p.tile_rows)
FT_FIELDS(AsyncGemmArgs, p.linear, p.rows)
FT_FIELDS(PlainMatrix, p.weights, p.out, p.outputs)
FT_FIELDS(PlainLinearArgs, p.weights, p.wide, p.k, p.padded, p.in, p.row_list, p.out, p.residual, p.bias,
          p.rows, p.outputs, p.block_outputs, p.also)
FT_FIELDS(RouteArgs, p.scores, p.out, p.scale, p.chosen, p.renormalised)
FT_FIELDS(ExpertTiles, p.experts, p.pairs, p.count)
FT_FIELDS(ExpertTilesArgs, p.routes, p.to, p.sizes, p.firsts, p.rows, p.chosen, p.experts)
FT_FIELDS(ExpertArgs, p.records, p.codes, p.scales, p.in, p.out, p.expert_tiles, p.pairs_a_row, p.tiles,
          p.groups, p.wide, p.k, p.padded)
FT_FIELDS(MixtureArgs, p.route, p.routes, p.codes, p.scales, p.inner, p.down, p.shared_inner, p.shared_down,
          p.tiles, p.shared_tiles, p.groups, p.down_groups, p.shared_groups, p.rows, p.out_tiles, p.gelu,
          p.inner_blocks, p.held, p.inner_rows, p.shared_gate, p.residual, p.out)
FT_FIELDS(ExpertSumArgs, p.routes, p.in, p.out, p.bias, p.chosen, p.residual)
FT_FIELDS(ExpertActivationArgs, p.routes, p.gate, p.up, p.gate_bias, p.up_bias, p.chosen, p.activation,
          p.alpha, p.limit, p.codes)
FT_FIELDS(ArrangeArgs, p.from, p.to, p.order)
FT_FIELDS(RotaryArgs, p.step, p.frequencies, p.axes, p.half, p.rows, p.scale, p.cosines, p.sines)
FT_FIELDS(AttendArgs, p.step, p.q, p.k, p.v, p.out, p.q_norm, p.k_norm, p.sinks, p.gains, p.cosines, p.sines,
          p.queries, p.partials, p.cache, p.block_bytes, p.layer_offset, p.head_bytes, p.heads, p.kv_heads,
          p.head_dim, p.half, p.gated, p.kv_bits, p.sliding_window, p.causal, p.shared, p.v_norm, p.rows,
          p.segments, p.splits, p.stages, p.gain_span, p.gain_count, p.eps, p.scale)
FT_FIELDS(ConvArgs, p.step, p.in, p.out, p.kernel, p.slots, p.slot_bytes, p.offset, p.kernel_width)
FT_FIELDS(DeltaArgs, p.step, p.in, p.a, p.b, p.out, p.decay, p.dt_bias, p.slots, p.slot_bytes, p.state_offset,
          p.tape_offset, p.key_heads, p.value_heads, p.key_dim, p.value_dim, p.entry)
FT_FIELDS(DeltaStepArgs, p.conv, p.delta, p.norm)
#undef FT_FIELDS

/// Writes values one after the other; `place` turns an address into text that is the same in each run.
template <class Place>
class FieldWriter {
 public:
  FieldWriter(std::string& text, const Place& place) : text_(text), place_(place) {}
  template <class... Fields>
  void operator()(const Fields&... fields) const {
    (write(fields), ...);
  }

 private:
  template <class T>
  void write(const T& field) const {
    if constexpr (std::is_pointer_v<T>) {
      text_ += fmt::format(" {}", place_(static_cast<const void*>(field)));
    } else if constexpr (std::is_same_v<T, float>) {
      text_ += fmt::format(" {:08x}", std::bit_cast<std::uint32_t>(field));
    } else if constexpr (std::is_class_v<T>) {
      text_ += " (";
      note_fields(field, *this);
      text_ += " )";
    } else {
      text_ += fmt::format(" {}", static_cast<long long>(field));
    }
  }

  std::string& text_;
  const Place& place_;
};

/// The arguments of a launch of `kernel` as text; empty for a kernel that is not listed.
template <class Place>
std::string arguments_of(std::string_view kernel, const void* args, const Place& place) {
  std::string text;
  bool found = false;
  const auto as = [&]<class Args>(std::type_identity<Args>, std::string_view prefix) {
    if (found || !kernel.starts_with(prefix)) return;
    found = true;
    note_fields(*static_cast<const Args*>(args), FieldWriter<Place>(text, place));
  };
#define FT_ARGUMENTS(Args, prefix) as(std::type_identity<Args>(), prefix)
  FT_ARGUMENTS(FetchArgs, "fetch"), FT_ARGUMENTS(GatherArgs, "gather_rows");
  FT_ARGUMENTS(CaptureArgs, "capture_rows"), FT_ARGUMENTS(AdjustArgs, "adjust_logits");
  FT_ARGUMENTS(SampleArgs, "sample_"), FT_ARGUMENTS(QuantiseArgs, "quantise");
  FT_ARGUMENTS(NormArgs, "rms_norm"), FT_ARGUMENTS(LayerNormArgs, "layer_norm");
  FT_ARGUMENTS(GatedNormArgs, "gated_norm"), FT_ARGUMENTS(PairArgs, "swiglu");
  FT_ARGUMENTS(PairArgs, "geglu"), FT_ARGUMENTS(PairArgs, "add"), FT_ARGUMENTS(PairArgs, "sigmoid_gate");
  FT_ARGUMENTS(ConcatArgs, "concat"), FT_ARGUMENTS(ScaleArgs, "scale"), FT_ARGUMENTS(GeluArgs, "gelu_rows");
  FT_ARGUMENTS(SoftCapArgs, "soft_cap"), FT_ARGUMENTS(PackArgs, "pack"), FT_ARGUMENTS(EmbedArgs, "embed");
  FT_ARGUMENTS(PlainLinearArgs, "linear_plain_"), FT_ARGUMENTS(LinearArgs, "linear_");
  FT_ARGUMENTS(StreamArgs, "stream_"), FT_ARGUMENTS(SplitKGemmArgs, "splitk_cluster_gemm_");
  FT_ARGUMENTS(GemmArgs, "gemm_"), FT_ARGUMENTS(SwizzleArgs, "swizzle_activations");
  FT_ARGUMENTS(AsyncGemmArgs, "async_gemm_"), FT_ARGUMENTS(RouteArgs, "route");
  FT_ARGUMENTS(ExpertTilesArgs, "tile_pairs"), FT_ARGUMENTS(ExpertArgs, "expert_");
  FT_ARGUMENTS(ExpertActivationArgs, "activate_experts");
  FT_ARGUMENTS(MixtureArgs, "mixture_"), FT_ARGUMENTS(ExpertSumArgs, "sum_experts");
  FT_ARGUMENTS(ArrangeArgs, "arrange"), FT_ARGUMENTS(RotaryArgs, "rotary");
  FT_ARGUMENTS(AttendArgs, "attend_"), FT_ARGUMENTS(ConvArgs, "conv");
  FT_ARGUMENTS(LocalConvArgs, "local_conv"), FT_ARGUMENTS(ClusterArgs, "cluster_");
  FT_ARGUMENTS(WalkArgs, "walk"), FT_ARGUMENTS(DeltaStepArgs, "delta_step"),
      FT_ARGUMENTS(DeltaArgs, "delta_rule_");
#undef FT_ARGUMENTS
  return text;
}

}  // namespace ft::cuda
