#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "models/blocks/layers.h"
#include "models/blocks/moe.h"
#include "models/blocks/mtp.h"
#include "models/blocks/trunk.h"
#include "models/head_doctor.h"
#include "models/qwen3_5/config.h"
#include "models/qwen3_5/family.h"
#include "models/qwen3_5/names.h"
#include "models/qwen3_5/norms.h"
#include "models/qwen3_5/vision.h"
#include "models/weight_source.h"

namespace ft::qwen3_5 {
namespace {

/// The axis that turns each frequency: interleaved T H W T H W ... up to three times each section, then T; or
/// section after section.
std::vector<std::uint8_t> frequency_axes(const RopeConfig& rope) {
  const std::vector<int>& section = rope.mrope_section;
  std::vector<std::uint8_t> axes(static_cast<std::size_t>(rope.rotary_dim / 2), 0);
  if (section.size() != 3) return axes;
  int begin = section[0];
  for (int axis = 1; axis < 3; ++axis) {
    const int count = section[static_cast<std::size_t>(axis)];
    for (int j = 0; j < count; ++j) {
      const auto at = static_cast<std::size_t>(rope.mrope_interleaved ? axis + 3 * j : begin + j);
      if (at < axes.size()) axes[at] = static_cast<std::uint8_t>(axis);
    }
    begin += count;
  }
  return axes;
}

/// One function per part of the specification: it reads the weights and appends the instructions.
class Builder {
 public:
  /// `axes`: positions have three axes, because prompts may have images.
  Builder(Program& program, const Config& config, WeightSource& source, bool axes)
      : p_(program),
        config_(config),
        source_(source),
        eps_(static_cast<float>(config.rms_norm_eps)),
        axes_(axes) {}

  Row attention(Row x, const std::string& prefix) {
    blocks::AttentionPart part;
    part.heads = config_.num_heads, part.kv_heads = config_.num_kv_heads, part.head_dim = config_.head_dim;
    part.hidden = config_.hidden_size;
    part.rope = &config_.rope;
    if (axes_) part.frequency_axes = frequency_axes(config_.rope);
    part.eps = eps_;
    part.gated = config_.attn_output_gate, part.qk_norm = true;
    return blocks::attention(p_, source_, x, prefix, part);
  }

  Row gated_delta(Row x, const std::string& prefix) {
    const int value_width = config_.linear_value_heads * config_.linear_value_dim;
    const int hidden = config_.hidden_size;
    const auto [qkv, z] = stream_projections(prefix, value_width);
    const auto [a, b] = gate_projections(prefix);
    const Weight kernel = source_.matrix(prefix + "conv1d", config_.qkv_rows(), config_.conv_kernel);
    const std::vector<Row> in = p_.linear(x, {qkv, z, a, b});
    DeltaRule delta;
    delta.in = p_.conv(in[0], kernel);
    delta.a = in[2], delta.b = in[3];
    delta.a_log = source_.vector(prefix + "A_log", config_.linear_value_heads);
    delta.dt_bias = source_.vector(prefix + "dt_bias", config_.linear_value_heads);
    delta.key_heads = config_.linear_key_heads;
    delta.value_heads = config_.linear_value_heads;
    delta.key_dim = config_.linear_key_dim;
    delta.value_dim = config_.linear_value_dim;
    const Row y = p_.delta_rule(std::move(delta));
    const Weight norm = source_.vector(prefix + "norm", config_.linear_value_dim);
    const Weight out = source_.matrix(prefix + "out_proj", hidden, value_width);
    return p_.linear(p_.gated_norm(y, in[1], norm, eps_), {out})[0];
  }

  Row experts(Row x, const std::string& layer) {
    const MoeConfig& moe = config_.moe;
    return blocks::moe(p_, source_, x, layer,
                       {moe.experts, moe.experts_per_token, moe.expert_size, moe.shared_size, moe.norm_topk});
  }

  /// `prefix` without a dot.
  Row layer(Row x, const std::string& prefix, bool full_attention) {
    const Row in = norm(x, prefix + ".input_layernorm");
    x = p_.add(x, full_attention ? attention(in, prefix + ".self_attn.")
                                 : gated_delta(in, prefix + ".linear_attn."));
    const Row after = norm(x, prefix + ".post_attention_layernorm");
    return p_.add(x, config_.moe.experts > 0
                         ? experts(after, prefix)
                         : blocks::mlp(p_, source_, after, prefix + ".mlp.", config_.intermediate_size));
  }

  Row norm(Row x, const std::string& name) { return blocks::norm(p_, source_, x, name, eps_); }

 private:
  using Order = std::vector<std::int64_t>;

  /// Qwen3-Next stores, for each key head, its q, its k, the v of its value heads, and their z.
  std::pair<Weight, Weight> stream_projections(const std::string& prefix, int value_width) {
    const std::int64_t rows = config_.qkv_rows(), hidden = config_.hidden_size;
    const std::string fused = prefix + "in_proj_qkvz";
    if (!config_.next || !source_.has(fused))
      return {source_.matrix(prefix + "in_proj_qkv", rows, hidden),
              source_.matrix(prefix + "in_proj_z", value_width, hidden)};
    const std::int64_t heads = config_.linear_key_heads, key = config_.linear_key_dim;
    const std::int64_t values = value_width / heads;  // of one key head
    const std::int64_t block = std::gcd(key, values), each = 2 * (key + values) / block;
    Order order;
    for (const auto& [first, size] :
         {std::pair(std::int64_t{0}, key), {key, key}, {2 * key, values}, {2 * key + values, values}}) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < size / block; ++i) order.push_back(h * each + first / block + i);
      }
    }
    const Weight all = source_.matrix_in_order(fused, rows + value_width, hidden, block, std::move(order));
    return {rows_of(all, 0, rows, fused + "[qkv]"), rows_of(all, rows, value_width, fused + "[z]")};
  }

  /// a and b; Qwen3-Next stores, for each key head, the b of its value heads and their a.
  std::pair<Weight, Weight> gate_projections(const std::string& prefix) {
    const std::int64_t values = config_.linear_value_heads, hidden = config_.hidden_size;
    if (!config_.next)
      return {source_.matrix(prefix + "in_proj_a", values, hidden),
              source_.matrix(prefix + "in_proj_b", values, hidden)};
    const std::int64_t heads = config_.linear_key_heads;
    Order order;
    for (const std::int64_t first : {1, 0}) {
      for (std::int64_t h = 0; h < heads; ++h) order.push_back(2 * h + first);
    }
    const std::string fused = prefix + "in_proj_ba";
    const Weight all = source_.matrix_in_order(fused, 2 * values, hidden, values / heads, std::move(order));
    return {rows_of(all, 0, values, fused + "[a]"), rows_of(all, values, values, fused + "[b]")};
  }

  Program& p_;
  const Config& config_;
  WeightSource& source_;
  float eps_;
  bool axes_;
};

void build_target(Model& model, const Config& config, WeightSource& source,
                  std::span<const CapturedLayers> wanted) {
  Builder build(model.target, config, source, model.vision.has_value());
  blocks::Trunk trunk;
  trunk.layers = config.num_layers, trunk.eps = static_cast<float>(config.rms_norm_eps);
  trunk.captures_before_norm = config.mtp.base_hidden_pre_norm;
  trunk.layer = [&](Row x, int i) {
    const bool full = config.layer_types[static_cast<std::size_t>(i)] == LayerType::kFullAttention;
    return build.layer(x, fmt::format("layers.{}", i), full);
  };
  blocks::build_trunk(model, source, wanted, trunk);
}

Status check_supported(const Config& config) {
  if (config.attention_bias) {
    return Error{
        Code::kUnsupported,
        config.path + ": attention_bias: true is not supported; use a published model of the family"};
  }
  return {};
}

HeadReport examine(const Model& model, const Config& config, WeightSource& source) {
  HeadSizes sizes{config.mtp.layers,   config.hidden_size, config.intermediate_size, config.num_heads,
                  config.num_kv_heads, config.head_dim,    config.attn_output_gate};
  sizes.experts = config.moe.experts;
  sizes.expert = config.moe.expert_size, sizes.shared = config.moe.shared_size;
  sizes.layout = expert_layout(source, blocks::expert_names("mtp.layers.0"));
  const std::vector<HeadTensor> tensors = head_tensors(sizes);
  const auto settle_norms = [&]() -> Result<std::string> {
    const std::size_t before = source.index().warnings().size();
    FT_ASSIGN(const bool shifted, mtp_norms_are_shifted(source.index(), config));
    source.set_mtp_norm_offset(shifted ? 0.0F : 1.0F);
    const std::vector<std::string>& warnings = source.index().warnings();
    return warnings.size() > before ? warnings.back() : std::string();
  };
  return examine_head(model, {config.mtp.layers, tensors, settle_norms, config.mtp.by_tensors}, source);
}

Status build(Model& model, const FamilyConfig& family_config, WeightSource& source,
             const LoadOptions& options) {
  const auto& config = static_cast<const Config&>(family_config);
  FT_TRY(blocks::read_ends(model, source, config.vocab_size, config.hidden_size));
  FT_TRY(build_vision(model, config, source));
  build_target(model, config, source, options.captures);
  FT_TRY(source.status());
  model.mtp_head = examine(model, config, source);
  if (!model.mtp_head.usable()) return {};
  blocks::MtpHead head;
  head.eps = static_cast<float>(config.rms_norm_eps);
  head.hidden_first = config.mtp.concat_order == "hidden_embedding";
  head.captures_before_norm = config.mtp.hidden_pre_norm;
  head.layers = [&](Program& p, Row x) {
    Builder build(p, config, source, model.vision.has_value());
    for (int i = 0; i < config.mtp.layers; ++i) x = build.layer(x, fmt::format("mtp.layers.{}", i), true);
    return x;
  };
  blocks::build_mtp_head(model, source, options, head);
  return {};
}

Result<std::unique_ptr<FamilyConfig>> read(const format::ConfigFiles& files, const std::string& model_type) {
  FT_ASSIGN(Config config, Config::read(files, model_type));
  FT_TRY(check_supported(config));
  return std::unique_ptr<FamilyConfig>(std::make_unique<Config>(std::move(config)));
}

Result<float> norm_offset(format::WeightIndex& index, const FamilyConfig& family_config) {
  const auto& config = static_cast<const Config&>(family_config);
  FT_ASSIGN(const bool shifted, norms_are_shifted(index, config));
  return shifted ? 0.0F : 1.0F;
}

constexpr std::string_view kOneLess[] = {".input_layernorm.weight", ".post_attention_layernorm.weight",
                                         ".q_norm.weight", ".k_norm.weight"};
constexpr ConversionNames kConversion = {"language_model.", "switch_mlp.", false, kOneLess};
constexpr std::string_view kChatFormats[] = {"qwen3_5", "hermes", "qwen3_5 without a grammar of calls"};
constexpr std::string_view kModelTypes[] = {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"};

constexpr ConversionNames kNextConversion = {"", "switch_mlp.", false, kOneLess};
constexpr std::string_view kNextModelTypes[] = {"qwen3_next"};

}  // namespace

const Family kFamily = {"qwen3_5",   kModelTypes, kPrefixes,   kBareNames,   read,
                        norm_offset, build,       kConversion, kChatFormats, &kSynthetic};
const Family kNextFamily = {"qwen3_next", kNextModelTypes, kPrefixes,       kBareNames,   read,
                            norm_offset,  build,           kNextConversion, kChatFormats, &kNextSynthetic};

}  // namespace ft::qwen3_5
