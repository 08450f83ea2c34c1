#include "models/dflash/config.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "format/generation_config.h"
#include "format/key_reader.h"
#include "models/blocks/limits.h"

namespace ft::dflash {
namespace {

using format::in_quotes;
using format::KeyReader;
using nlohmann::json;

constexpr int kMaxBlock = 256;
constexpr int kMaxLayers = 64, kMaxWidth = 1 << 17;
/// Columns to which DSpark's bias is added; nothing published says how many. More change no measured draft.
constexpr int kSparkCandidates = 64;

/// The objects of a config. z-lab has the sizes at the top level and the rest in dflash_config, or at the top
/// level as well; speculators has the sizes in transformer_layer_config and the rest at the top level.
struct Keys {
  KeyReader& top;
  KeyReader& sizes;
  KeyReader& own;
  bool speculators;

  /// The object that has the key; if none has it, the one that should have it.
  KeyReader& of(const char* key) const {
    return own.find(key) != nullptr || top.find(key) == nullptr ? own : top;
  }
  void refuse(const std::string& what) const {
    top.fail(Code::kUnsupported, fmt::format("{}: {}", top.where(), what));
  }
  Status status() const {
    FT_TRY(top.status());
    FT_TRY(sizes.status());
    return own.status();
  }
};

Design read_design(const Keys& keys) {
  struct Name {
    std::string_view architecture, speculator;
    Design design;
  };
  static constexpr Name kNames[] = {{"DFlashDraftModel", "dflash", Design::kDflash},
                                    {"DFlash2DraftModel", "dflash2", Design::kDflash2},
                                    {"DSparkDraftModel", "dspark", Design::kDspark},
                                    {"Qwen3DSparkModel", "", Design::kDspark}};
  const std::string type = keys.top.text("speculators_model_type", "");
  const json* names = keys.top.find("architectures");
  const json first = names != nullptr && names->is_array() && !names->empty() ? names->front() : json();
  for (const Name& name : kNames)
    if (keys.speculators ? type == name.speculator : first == name.architecture) return name.design;
  if (keys.speculators) {
    keys.refuse(
        fmt::format("speculators_model_type: expected dflash, dflash2 or dspark, found {}; use one of "
                    "these drafters",
                    in_quotes(type)));
  } else {
    keys.top.fail(
        "architectures",
        "[\"DFlashDraftModel\"], [\"DFlash2DraftModel\"] or [\"DSparkDraftModel\"]: other designs are "
        "not supported",
        names);
  }
  return Design::kDflash;
}

void read_shape(const Keys& keys, Config& config) {
  KeyReader& sizes = keys.sizes;
  config.hidden = sizes.whole("hidden_size", 0, 1, kMaxWidth);
  config.layers = sizes.whole("num_hidden_layers", 0, 1, kMaxLayers);
  config.heads = sizes.whole("num_attention_heads", 0, 1, 4096);
  config.kv_heads = sizes.whole("num_key_value_heads", config.heads, 1, 4096);
  config.head_dim = sizes.whole("head_dim", config.heads > 0 ? config.hidden / config.heads : 0, 2, 4096);
  config.intermediate = sizes.whole("intermediate_size", 0, 1, kMaxWidth * 8);
  config.vocabulary = sizes.whole("vocab_size", 0, 1, 1 << 24);
  config.eps = sizes.real("rms_norm_eps", 1e-6, 0, 1);
  config.softcap = keys.of("final_logit_softcapping").real("final_logit_softcapping", 0, 0, 1e6);
  config.multiplier = keys.of("output_multiplier").real("output_multiplier", 1, 1e-6, 1e6);
  config.embedding_scale = keys.of("input_embedding_scale").real("input_embedding_scale", 1, 1e-6, 1e6);
  config.draft_vocabulary = keys.top.whole("draft_vocab_size", config.vocabulary, 1, 1 << 24);
}

/// round(linspace(1, target - 3, layers)), or the middle layer for one.
std::vector<int> default_layers(int layers, int target) {
  if (layers == 1) return {target / 2};
  std::vector<int> list;
  for (int i = 0; i < layers; ++i)
    list.push_back(static_cast<int>(std::lround(1 + (target - 4.0) * i / (layers - 1))));
  return list;
}

/// z-lab counts layers, speculators the boundaries before them: boundary k is the output of layer k - 1.
std::vector<int> read_layers(const Keys& keys, const Config& config, int target) {
  const char* const key = keys.speculators ? "aux_hidden_state_layer_ids" : "target_layer_ids";
  const int first = keys.speculators ? 1 : 0;
  KeyReader& own = keys.of(key);
  const json* list = own.find(key);
  if (list == nullptr) return default_layers(config.layers, target);
  std::vector<int> ids;
  const auto good = [](const json& id) { return id.is_number_integer() && id >= 0 && id < (1 << 16); };
  for (const json& id : list->is_array() ? *list : json::array({nullptr})) {
    if (!good(id)) {
      own.fail(key, "a list of layers, counted from 0", list);
      return {};
    }
    ids.push_back(id.get<int>() - first);
  }
  return ids;
}

/// True if a sliding layer is causal inside the block. A full layer is not, unless the config says so.
bool sliding_is_causal(const Keys& keys, Design design) {
  if (!keys.speculators) return true;
  return !keys.top.flag("sliding_window_non_causal", design == Design::kDflash2);
}

void read_attention(const Keys& keys, Config& config) {
  KeyReader& sizes = keys.sizes;
  const std::optional<bool> causal = keys.own.optional_flag("causal");
  const std::optional<bool> is_causal = sizes.optional_flag("is_causal");
  const int window =
      keys.own.whole("draft_window_size", sizes.whole("sliding_window", 0, 0, 1 << 24), 0, 1 << 24);
  const bool sliding_causal = sliding_is_causal(keys, config.design);
  const json* types = sizes.find("layer_types");
  for (int i = 0; i < config.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool listed = types != nullptr && types->is_array() && at < types->size();
    const bool sliding =
        listed ? (*types)[at] == "sliding_attention" : sizes.flag("use_sliding_window", false);
    if (types != nullptr && (!listed || (!sliding && (*types)[at] != "full_attention")))
      sizes.fail("layer_types", "full_attention or sliding_attention for each layer", types);
    config.windows.push_back(sliding ? window : 0);
    config.causal.push_back(causal.value_or(is_causal.value_or(sliding && sliding_causal)) ? 1 : 0);
    if (sliding && window == 0) sizes.fail("sliding_window", "a window for its sliding layers", nullptr);
    if (sliding && window > 0 && config.causal.back() == 0 && config.block > window)
      sizes.fail("sliding_window", fmt::format("a window of at least the block, {}", config.block),
                 sizes.find("sliding_window"));
  }
}

void read_block(const Keys& keys, Config& config) {
  const bool dspark = config.design == Design::kDspark;
  const int least = dspark ? 1 : 2, usual = keys.speculators ? 8 : dspark ? 7 : 16;
  KeyReader& own = keys.own;
  config.block =
      own.whole("block_size", keys.top.whole("block_size", usual, least, kMaxBlock), least, kMaxBlock);
  config.block = std::min(config.block, own.whole("runtime_block_size", config.block, least, kMaxBlock));
  config.mask_token = keys.of("mask_token_id").whole("mask_token_id", -1, 0, 1 << 24);
  if (config.mask_token < 0) own.fail("mask_token_id", "the id of the mask token", nullptr);
  const char* const anchor = keys.speculators ? "sample_from_anchor" : "shift_label";
  config.from_anchor = keys.of(anchor).flag(anchor, dspark);
  if (!config.from_anchor && config.block < 2)
    own.fail("block_size", "at least 2, the pending token and a mask",
             keys.of("block_size").find("block_size"));
}

/// A key of DFlash2: required in z-lab's files, optional in speculators'.
int read_selector_key(const Keys& keys, const char* key, int usual, int high) {
  KeyReader& own = keys.of(key);
  if (!keys.speculators && own.find(key) == nullptr)
    own.fail(key, "a number, as DFlash2 drafters have it", nullptr);
  return own.whole(key, usual, 1, high);
}

void read_dflash2(const Keys& keys, Config& config) {
  config.taps = read_selector_key(keys, "conv_kernel_size", 2, kMaxLocalTaps);
  const int size = read_selector_key(keys, "conv_group_size", 16, kMaxWidth);
  config.rank = read_selector_key(keys, "selector_rank", 256, 1 << 16);
  config.candidates = read_selector_key(keys, "selector_top_k", 16, kMaxWalkCandidates);
  const auto wrong = [&](const char* key, const std::string& expected) {
    keys.of(key).fail(key, expected, keys.of(key).find(key));
  };
  if (config.taps > config.block)
    wrong("conv_kernel_size", fmt::format("at most the block, {}", config.block));
  if (size > 0 && config.hidden % size != 0)
    wrong("conv_group_size", fmt::format("a divisor of hidden_size {}", config.hidden));
  config.groups = size > 0 ? config.hidden / size : 0;
  if (config.candidates > config.vocabulary)
    wrong("selector_top_k", fmt::format("at most vocab_size {}", config.vocabulary));
  if (config.draft_vocabulary != config.vocabulary)
    wrong("draft_vocab_size",
          fmt::format("vocab_size {}: DFlash2 has no reduced vocabulary", config.vocabulary));
}

void read_dspark(const Keys& keys, Config& config) {
  config.rank = keys.of("markov_rank").whole("markov_rank", 256, 0, 1 << 16);
  const std::string head = keys.of("markov_head_type").text("markov_head_type", "vanilla");
  const std::string projector = keys.own.text("projector_type", "dspark");
  if (head != "vanilla")
    keys.refuse(fmt::format("markov_head_type {} is not supported; use a DSpark drafter with a vanilla head",
                            in_quotes(head)));
  if (projector != "dspark")
    keys.refuse(
        fmt::format("projector_type {} is not supported; use a DSpark drafter", in_quotes(projector)));
  const std::string type = keys.sizes.text("model_type", "qwen3");
  if (type != "qwen3")
    keys.refuse(fmt::format("a DSpark drafter of model_type {} is not supported; use one of model_type qwen3",
                            in_quotes(type)));
  if (config.rank > 0) config.candidates = std::min(kSparkCandidates, config.draft_vocabulary);
}

void check_supported(const Keys& keys) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (keys.sizes.flag(key, false))
      keys.refuse(fmt::format("{}: true is not supported; use a published drafter", key));
  }
  if (keys.own.flag("attention_sink_bias", false))
    keys.refuse("attention_sink_bias: true is not supported; use a published drafter");
}

void check_target(const Keys& keys, const Config& config, const ModelFacts& target) {
  KeyReader& top = keys.top;
  const auto differs = [&](const char* key, int own, int of_target) {
    if (own == of_target) return;
    top.fail(Code::kInvalid,
             fmt::format("{}: {} is {}, but the target's is {}; use the drafter of this target", top.where(),
                         key, own, of_target));
  };
  differs("hidden_size", config.hidden, target.width);
  differs("vocab_size", config.vocabulary, target.vocabulary);
  differs("num_target_layers", top.whole("num_target_layers", target.layers, 1, 1 << 16), target.layers);
  if (config.mask_token >= target.vocabulary)
    top.fail(Code::kInvalid, fmt::format("{}: mask_token_id {} is outside the vocabulary of {}", top.where(),
                                         config.mask_token, target.vocabulary));
  if (config.draft_vocabulary > config.vocabulary)
    top.fail("draft_vocab_size", fmt::format("at most vocab_size {}", config.vocabulary),
             top.find("draft_vocab_size"));
}

}  // namespace

std::string_view design_name(Design design) {
  switch (design) {
    case Design::kDflash2:
      return "DFlash2";
    case Design::kDspark:
      return "DSpark";
    default:
      return "DFlash";
  }
}

Result<Config> Config::read(const format::ConfigFiles& files, const ModelFacts& target) {
  KeyReader top(*files.config, files.path);
  const bool speculators = top.find("speculators_model_type") != nullptr;
  KeyReader nested(top.object(speculators ? "transformer_layer_config" : "dflash_config"),
                   files.path + (speculators ? ": transformer_layer_config" : ": dflash_config"));
  const Keys keys{top, speculators ? nested : top, speculators ? top : nested, speculators};
  Config config;
  config.design = read_design(keys);
  check_supported(keys);
  FT_TRY(keys.status());
  read_shape(keys, config);
  config.rope = blocks::read_rope(
      keys.sizes, {1e7, 1, config.head_dim,
                   keys.sizes.whole64("max_position_embeddings", 32768, 1, blocks::kMaxPositions)});
  read_block(keys, config);
  read_attention(keys, config);
  if (config.design == Design::kDflash2) read_dflash2(keys, config);
  if (config.design == Design::kDspark) read_dspark(keys, config);
  config.captures.layers = read_layers(keys, config, target.layers);
  check_target(keys, config, target);
  FT_TRY(keys.status());
  FT_ASSIGN(config.quantisation, format::QuantisationMap::read(*files.config, files.path));
  return config;
}

}  // namespace ft::dflash
