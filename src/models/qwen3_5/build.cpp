#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "models/blocks/layers.h"
#include "models/blocks/moe.h"
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
    const Weight qkv = source_.matrix(prefix + "in_proj_qkv", config_.qkv_rows(), hidden);
    const Weight z = source_.matrix(prefix + "in_proj_z", value_width, hidden);
    const Weight a = source_.matrix(prefix + "in_proj_a", config_.linear_value_heads, hidden);
    const Weight b = source_.matrix(prefix + "in_proj_b", config_.linear_value_heads, hidden);
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

/// The draft vocabulary of the MTP head.
struct DraftIds {
  std::vector<std::int32_t> ids;  // empty: all
  ExtraIds extra;

  int count() const { return static_cast<int>(ids.size()) + extra.count; }
};

DraftIds draft_ids(const LoadOptions& options, const Config& config) {
  int frequent = options.draft_vocab_size;
  if (frequent < 0) frequent = config.vocab_size < kLargeVocabulary ? 0 : kFrequentDrafts;
  if (frequent == 0 || frequent >= config.vocab_size) return {};
  DraftIds drafts;
  drafts.ids.resize(static_cast<std::size_t>(frequent));
  std::iota(drafts.ids.begin(), drafts.ids.end(), 0);
  drafts.extra.count = std::min(kExtraDraftIds, config.vocab_size - frequent);
  std::vector<std::int32_t>& always = drafts.extra.always;
  for (const int end : config.eos_ids) {
    if (end >= frequent) always.push_back(end);
  }
  std::ranges::sort(always);
  if (std::ssize(always) > drafts.extra.count) always.resize(static_cast<std::size_t>(drafts.extra.count));
  return drafts;
}

/// In how many bits the head's matrices are read at most, by default: about as the target's are.
int bits_like(const Program& target) {
  double bits = 0, elements = 0;
  each_matrix(target, [&](const Weight& weight) {
    const auto count = static_cast<double>(weight.rows * weight.cols);
    bits += weight.stored_bits() * count, elements += count;
  });
  constexpr double kFew = 6;
  return bits < kFew * elements ? 4 : 8;
}

/// The MTP head: pairs (next token, hidden state of the token before it) to the hidden state that predicts
/// the token after next.
void build_head(Program& p, const Config& config, WeightSource& source, const Weight& embedding,
                const Weight& head, DraftIds drafts, bool axes) {
  Builder build(p, config, source, axes);
  const Row hidden = p.input(config.hidden_size);
  const Row e = build.norm(p.embed(embedding), "mtp.pre_fc_norm_embedding");
  const Row h = build.norm(hidden, "mtp.pre_fc_norm_hidden");
  const bool embedding_first = config.mtp.concat_order != "hidden_embedding";
  const Weight fc = source.matrix("mtp.fc", config.hidden_size, 2 * config.hidden_size);
  Row x = p.linear(embedding_first ? p.concat(e, h) : p.concat(h, e), {fc})[0];
  for (int i = 0; i < config.mtp.layers; ++i) x = build.layer(x, fmt::format("mtp.layers.{}", i), true);
  const Row last = build.norm(x, "mtp.norm");
  p.capture("hidden", config.mtp.hidden_pre_norm ? x : last);
  p.logits(last, head, std::move(drafts.ids), std::move(drafts.extra));
  p.sample();
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
  return examine_head(model, {config.mtp.layers, tensors, settle_norms}, source);
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
  Program program;
  DraftIds drafts = draft_ids(options, config);
  model.draft_vocabulary = drafts.ids.empty() ? config.vocab_size : drafts.count();
  build_head(program, config, source, model.embedding, model.lm_head, std::move(drafts),
             model.vision.has_value());
  if (const Status status = source.status(); !status.ok()) {
    model.mtp_head.state = state_after(status.error());
    model.mtp_head.sentence = "MTP head: " + status.error().message;
    return {};
  }
  const int most = options.draft_bits < 0 ? bits_like(model.target) : options.draft_bits;
  program.set_max_weight_bits(most);
  each_matrix(program, [&](const Weight& weight) {
    if (most > 0 && weight.stored_bits() > most) model.draft_bits = most;
  });
  model.mtp = std::move(program);
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

}  // namespace

const Family kFamily = {"qwen3_5",   kModelTypes, kPrefixes,   kBareNames,   read,
                        norm_offset, build,       kConversion, kChatFormats, &kSynthetic};

}  // namespace ft::qwen3_5
