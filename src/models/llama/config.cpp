#include "models/llama/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "format/tensor.h"
#include "models/blocks/layer_types.h"
#include "models/blocks/limits.h"

namespace ft::llama {
namespace {

using blocks::Sizes;
using format::KeyReader;
using nlohmann::json;

enum class Biases { kNone, kByKey, kOfQkv };  // kByKey: attention_bias, then of o_proj too
/// The layers that see a window. kSwitched: from max_window_layers on, if use_sliding_window is true.
enum class Windows { kNone, kAlways, kSwitched, kSwitchedAll, kWhereNothingTurns };

/// The features that distinguish a model type.
struct Variant {
  std::string_view model_type;
  Sizes defaults;
  double theta = 1e4;
  Biases biases = Biases::kNone;
  Windows windows = Windows::kNone;
  int window = 4096;  // where the key is absent; a null is none
  bool mlp_bias = false;
  bool qk_norm = false;
  bool skips_rotation = false;  // no_rope_layers
  bool multipliers = false;     // Granite's
  bool position_gain = false;   // llama_4_scaling_beta
  bool experts = false;
};

constexpr std::int64_t kQwenPositions = 32768;
constexpr Variant kVariants[] = {
    {.model_type = "llama", .defaults = {}, .biases = Biases::kByKey, .mlp_bias = true},
    {.model_type = "qwen2",
     .defaults = {151936, 4096, 22016, 32, 32, 32, 0, 1e-6, kQwenPositions},
     .biases = Biases::kOfQkv,
     .windows = Windows::kSwitched},
    {.model_type = "qwen3",
     .defaults = {151936, 4096, 22016, 32, 32, 32, 128, 1e-6, kQwenPositions},
     .biases = Biases::kByKey,
     .windows = Windows::kSwitched,
     .qk_norm = true},
    {.model_type = "qwen3_moe",
     .defaults = {151936, 2048, 6144, 24, 32, 4, 0, 1e-6, kQwenPositions},
     .biases = Biases::kByKey,
     .windows = Windows::kSwitchedAll,
     .qk_norm = true,
     .experts = true},
    {.model_type = "smollm3",
     .defaults = {128256, 2048, 11008, 36, 16, 4, 0, 1e-6, kQwenPositions},
     .theta = 2e6,
     .biases = Biases::kByKey,
     .windows = Windows::kWhereNothingTurns,
     .window = 0,
     .mlp_bias = true,
     .skips_rotation = true},
    {.model_type = "mistral",
     .defaults = {32000, 4096, 14336, 32, 32, 8, 0, 1e-6, 131072},
     .windows = Windows::kAlways},
    {.model_type = "ministral3",
     .defaults = {131072, 4096, 14336, 34, 32, 8, 128, 1e-5, 262144},
     .windows = Windows::kAlways,
     .window = 0,
     .position_gain = true},
    {.model_type = "granite",
     .defaults = {},
     .biases = Biases::kByKey,
     .mlp_bias = true,
     .multipliers = true},
};

constexpr auto kTypes = [] {
  std::array<std::string_view, std::size(kVariants) + 1> types;
  std::ranges::transform(kVariants, types.begin(), &Variant::model_type);
  types.back() = "mistral3";  // the model type of its text config
  return types;
}();

/// The number of positions that a row of a sliding layer sees; 0: the config has no windows.
int read_window(KeyReader& text, const json& object, const Variant& variant) {
  const bool is_null = object.contains("sliding_window") && text.find("sliding_window") == nullptr;
  const int window = text.whole("sliding_window", is_null ? 0 : variant.window, 1, 1 << 30);
  const bool switched = variant.windows != Windows::kAlways;
  return switched && !text.flag("use_sliding_window", false) ? 0 : window;
}

/// layer_types, where the model type has them, say which layers slide.
void read_listed_windows(KeyReader& text, Config& c, int window) {
  const std::optional<std::vector<bool>> slides = blocks::read_sliding_layers(text, c.layers.size());
  for (std::size_t i = 0; slides && i < c.layers.size(); ++i) c.layers[i].window = (*slides)[i] ? window : 0;
}

void read_windows(KeyReader& text, const json& object, const Variant& variant, Config& c) {
  if (variant.windows == Windows::kNone) return;
  const int window = read_window(text, object, variant);
  const int first =
      variant.windows == Windows::kSwitched ? text.whole("max_window_layers", 28, 0, blocks::kMaxLayers) : 0;
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    const bool slides = static_cast<int>(i) >= first &&
                        (variant.windows != Windows::kWhereNothingTurns || !c.layers[i].rotates);
    c.layers[i].window = slides ? window : 0;
  }
  const bool listed = variant.windows == Windows::kSwitched || variant.windows == Windows::kWhereNothingTurns;
  if (listed) read_listed_windows(text, c, window);
}

/// no_rope_layers: 1 for a layer whose positions turn, 0 for one whose positions do not.
void read_rotation(KeyReader& text, Config& c) {
  const int interval = text.whole("no_rope_layer_interval", 4, 1, blocks::kMaxLayers);
  const json* list = text.find("no_rope_layers");
  bool good = list == nullptr || (list->is_array() && list->size() >= c.layers.size());
  for (std::size_t i = 0; good && i < c.layers.size(); ++i) {
    bool turns = (i + 1) % static_cast<std::size_t>(interval) != 0;
    if (list != nullptr) {
      const json& value = (*list)[i];
      good = value.is_number_unsigned() && value.get<std::uint64_t>() <= 1;
      turns = good && value.get<std::uint64_t>() == 1;
    }
    c.layers[i].rotates = turns;
  }
  if (!good)
    text.fail("no_rope_layers", "a 0 or 1 for each of " + std::to_string(c.layers.size()) + " layers", list);
}

void read_biases(KeyReader& text, const Variant& variant, Config& c) {
  const bool by_key = text.flag("attention_bias", false);
  if (by_key && variant.biases != Biases::kByKey && variant.biases != Biases::kOfQkv)
    blocks::refuse(text, "attention_bias", "false", "true");
  c.qkv_bias = variant.biases == Biases::kOfQkv || by_key;
  c.o_bias = variant.biases == Biases::kByKey && by_key;
  c.mlp_bias = text.flag("mlp_bias", false);
  if (c.mlp_bias && !variant.mlp_bias) blocks::refuse(text, "mlp_bias", "false", "true");
  c.qk_norm = variant.qk_norm;
}

void read_multipliers(KeyReader& text, Config& c) {
  constexpr double kMin = 1e-9, kMax = 1e9;
  c.embedding_multiplier = text.real("embedding_multiplier", 1, kMin, kMax);
  c.residual_multiplier = text.real("residual_multiplier", 1, kMin, kMax);
  c.logits_scaling = text.real("logits_scaling", 1, kMin, kMax);
  c.attention_scale = text.real("attention_multiplier", 1, kMin, kMax);
}

void read_moe(KeyReader& text, Config& c) {
  const char* count = text.find("num_experts") == nullptr ? "num_local_experts" : "num_experts";
  c.moe.experts = text.whole(count, 128, 1, kMaxExperts);
  c.moe.experts_per_token = text.whole("num_experts_per_tok", 8, 1, kMaxExperts);
  c.moe.expert_size = text.whole("moe_intermediate_size", 768, 1, blocks::kMaxWidth);
  c.moe.norm_topk = text.flag("norm_topk_prob", false);
  if (c.moe.experts_per_token > c.moe.experts) {
    text.fail("num_experts_per_tok", "at most num_experts " + std::to_string(c.moe.experts),
              text.find("num_experts_per_tok"));
  }
  const int step = text.whole("decoder_sparse_step", 1, 1, blocks::kMaxLayers);
  for (std::size_t i = 0; i < c.layers.size(); ++i)
    c.layers[i].sparse = (i + 1) % static_cast<std::size_t>(step) == 0;
  const json* dense = text.find("mlp_only_layers");
  bool good = dense == nullptr || dense->is_array();
  for (std::size_t i = 0; good && dense != nullptr && i < dense->size(); ++i) {
    const json& layer = (*dense)[i];
    good = layer.is_number_unsigned() && layer.get<std::uint64_t>() < c.layers.size();
    if (good) c.layers[layer.get<std::size_t>()].sparse = false;
  }
  if (!good) text.fail("mlp_only_layers", "a list of layers, counted from 0", dense);
}

constexpr std::int64_t kMaxGains = 1 << 16;  // of published models: 16

/// A gain for each span of positions.
void limit_position_gain(Config& c) {
  if (c.rope.gain_span == 0) return;
  c.context = std::min(c.context, c.rope.gain_span * kMaxGains);
  c.rope.gain_positions = c.context;
}

void check_supported(KeyReader& text) {
  for (const char* key : {"rope_interleaved", "rope_traditional"}) {
    if (text.flag(key, false)) blocks::refuse(text, key, "false (pairs are halves of a head)", "true");
  }
}

/// Drafters, reward models and embedding models have the model_type of their original.
Status check_architecture(KeyReader& top) {
  for (const char* key : {"draft_vocab_size", "speculators_model_type"}) {
    if (top.find(key) != nullptr) {
      return Error{
          Code::kUnsupported,
          top.where() + ": " + key + ": found a drafter; give it with --drafter NAME=DIR and its target"};
    }
  }
  const json* list = top.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty()) return {};
  const auto* name = list->front().get_ptr<const std::string*>();
  if (name == nullptr || name->ends_with("ForCausalLM") || name->ends_with("ForConditionalGeneration"))
    return {};
  return Error{Code::kUnsupported, top.where() + ": architectures: expected a model ForCausalLM, found " +
                                       format::in_quotes(*name) +
                                       "; give a drafter with --drafter NAME=DIR and its target"};
}

/// By the model type of the text, which a nested config repeats.
Result<const Variant*> find_variant(KeyReader& text, const std::string& model_type) {
  const std::string type = text.text("model_type", model_type == "mistral3" ? "mistral" : model_type);
  FT_TRY(text.status());
  const auto* found = std::ranges::find(kVariants, type, &Variant::model_type);
  if (found != std::end(kVariants)) return found;
  return Error{Code::kUnsupported, text.where() + ".model_type: expected mistral or ministral3, found " +
                                       format::in_quotes(type) + "; use a model of a supported family"};
}

}  // namespace

constinit const std::span<const std::string_view> kModelTypes = kTypes;

Result<Config> Config::read(const format::ConfigFiles& files, const std::string& model_type) {
  const json& root = *files.config;
  Config c;
  c.path = files.path;
  KeyReader top(root, files.path);
  const bool nested = top.find("text_config") != nullptr;
  const json& object = nested ? top.object("text_config") : root;
  KeyReader text(object, nested ? files.path + ": text_config" : files.path);
  FT_TRY(top.status());
  FT_TRY(check_architecture(top));
  FT_ASSIGN(const Variant* variant, find_variant(text, model_type));

  c.sizes = blocks::read_sizes(text, variant->defaults);
  check_supported(text);
  FT_TRY(text.status());  // the code below multiplies these
  c.rope = blocks::read_rope(text, {variant->theta, 1, c.sizes.head_dim, c.sizes.positions});
  if (!variant->position_gain) c.rope.gain_span = 0;
  if (c.rope.rotary_dim != c.sizes.head_dim)
    blocks::refuse(text, "partial_rotary_factor", "1", "a part of a head");
  c.context = c.sizes.positions;
  c.has_tower = top.find("vision_config") != nullptr;
  c.layers.resize(static_cast<std::size_t>(c.sizes.layers));
  read_biases(text, *variant, c);
  if (variant->skips_rotation) read_rotation(text, c);
  read_windows(text, object, *variant, c);
  if (variant->multipliers) read_multipliers(text, c);
  if (variant->position_gain) limit_position_gain(c);
  if (variant->experts) read_moe(text, c);
  FT_TRY(text.status());
  FT_ASSIGN(c.ends, blocks::read_ends(files, top, text, nested, c.sizes.vocabulary, c));
  FT_ASSIGN(c.quantisation, format::QuantisationMap::read(root, files.path));
  return c;
}

ModelFacts Config::facts() const {
  ModelFacts facts;
  facts.vocabulary = sizes.vocabulary, facts.width = sizes.hidden, facts.context = context;
  facts.eos_ids = ends.eos_ids, facts.sampling = ends.sampling;
  facts.layers = sizes.layers;
  facts.full_attention_layers = static_cast<int>(std::ranges::count(layers, 0, &LayerConfig::window));
  facts.heads = sizes.heads, facts.kv_heads = sizes.kv_heads, facts.head_dim = sizes.head_dim;
  facts.intermediate = sizes.intermediate;
  facts.experts = moe.experts;
  facts.experts_per_token = moe.experts_per_token, facts.expert_size = moe.expert_size;
  return facts;
}

}  // namespace ft::llama
