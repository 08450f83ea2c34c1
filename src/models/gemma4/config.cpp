#include "models/gemma4/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "format/generation_config.h"
#include "format/half.h"
#include "format/key_reader.h"
#include "models/blocks/limits.h"
#include "models/blocks/sizes.h"
#include "models/gemma4/config_layers.h"
#include "program/instructions.h"

namespace ft::gemma4 {
namespace {

using format::in_quotes;
using format::KeyReader;
using format::kMaxVocabulary;
using nlohmann::json;

using blocks::kMaxHeadDim, blocks::kMaxHeads, blocks::kMaxPositions, blocks::kMaxWidth;

void read_sizes(KeyReader& text, Config& c) {
  c.vocab_size = text.whole("vocab_size", c.vocab_size, 1, kMaxVocabulary);
  c.hidden_size = text.whole("hidden_size", c.hidden_size, 1, kMaxWidth);
  c.intermediate_size = text.whole("intermediate_size", c.intermediate_size, 1, kMaxWidth);
  c.num_layers = text.whole("num_hidden_layers", c.num_layers, 1, kMaxLayers);
  c.num_heads = text.whole("num_attention_heads", c.num_heads, 1, kMaxHeads);
  c.num_kv_heads = text.whole("num_key_value_heads", c.num_kv_heads, 1, kMaxHeads);
  c.head_dim = text.whole("head_dim", c.head_dim, 2, kMaxHeadDim);
  c.window = text.whole("sliding_window", c.window, 1, 1 << 30);
  c.rms_norm_eps = text.real("rms_norm_eps", c.rms_norm_eps, 0.0, 1.0);
  c.logit_softcap = text.real("final_logit_softcapping", 0.0, 0.0, 1e6);
  c.max_positions = text.whole64("max_position_embeddings", c.max_positions, 1, kMaxPositions);
  c.per_layer_width = text.whole("hidden_size_per_layer_input", c.per_layer_width, 0, kMaxWidth);
  c.per_layer_vocabulary =
      text.whole("vocab_size_per_layer_input", c.per_layer_vocabulary, 1, kMaxVocabulary);
  if (c.per_layer_width > 0 && c.per_layer_vocabulary < c.vocab_size) {
    text.fail("vocab_size_per_layer_input", "at least vocab_size " + std::to_string(c.vocab_size),
              text.find("vocab_size_per_layer_input"));
  }
}

void read_experts(KeyReader& text, Config& c) {
  if (!text.flag("enable_moe_block", false)) return;
  c.experts = text.whole("num_experts", 0, 1, kMaxExperts);
  c.experts_per_token = text.whole("top_k_experts", 0, 1, kMaxExperts);
  c.expert_size = text.whole("moe_intermediate_size", 0, 1, kMaxWidth);
  for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
    if (text.find(key) == nullptr) text.fail(key, "a number, because enable_moe_block is true", nullptr);
  }
  if (c.experts_per_token > c.experts) {
    text.fail("top_k_experts", "at most num_experts " + std::to_string(c.experts),
              text.find("top_k_experts"));
  }
}

void refuse(KeyReader& text, const std::string& key, const std::string& expected, const std::string& found) {
  text.fail(Code::kUnsupported, text.where() + "." + key + ": expected " + expected + ", found " + found +
                                    "; use a published model of the family");
}

void check_supported(KeyReader& text) {
  if (const std::string act = text.text("hidden_activation", "gelu_pytorch_tanh"); act != "gelu_pytorch_tanh")
    refuse(text, "hidden_activation", "gelu_pytorch_tanh", in_quotes(act));
  if (text.flag("attention_bias", false)) refuse(text, "attention_bias", "false", "true");
  if (const std::string sees = text.text("use_bidirectional_attention", "vision"); sees != "vision")
    refuse(text, "use_bidirectional_attention", "vision or nothing", in_quotes(sees));
}

void read_rope(KeyReader& text, const char* kind, RopeConfig& rope) {
  KeyReader all(text.object("rope_parameters"), text.where() + ".rope_parameters");
  KeyReader keys(all.object(kind), all.where() + "." + kind);
  const bool given = all.find(kind) != nullptr;
  const std::string type = keys.text("rope_type", given || rope.proportion == 1 ? "default" : "proportional");
  rope.theta = keys.real("rope_theta", rope.theta, 1.0, 1e15);
  // The type "default" rotates every pair, whatever the factor says.
  const double proportion = keys.real("partial_rotary_factor", given ? 1.0 : rope.proportion, 0.0, 1.0);
  rope.proportion = type == "proportional" ? proportion : 1.0;
  rope.factor = type == "proportional" ? keys.real("factor", 1.0, 1e-6, 65536) : 1.0;
  if (type != "default" && type != "proportional")
    refuse(keys, "rope_type", "default or proportional", in_quotes(type));
  for (const Status& status : {text.status(), all.status(), keys.status()}) {
    if (!status.ok() && text.status().ok()) text.fail(status.error().code, status.error().message);
  }
}

void read_ids(KeyReader& level, const char* key, int vocabulary, std::vector<int>& ids) {
  const json* list = level.find(key);
  if (list == nullptr) return;
  bool good = list->is_array();
  for (std::size_t i = 0; good && i < list->size(); ++i) {
    const json& id = (*list)[i];
    good = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(vocabulary);
    if (good) ids.push_back(id.get<int>());
  }
  if (!good)
    level.fail(key, "a list of token ids from 0 to vocab_size " + std::to_string(vocabulary) + " - 1", list);
}

/// The number format that the model computes in; published files name bfloat16.
bool computes_in_bf16(KeyReader& top, KeyReader& text) {
  for (KeyReader* level : {&text, &top}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (const std::string name = level->text(key, ""); !name.empty()) return name == "bfloat16";
    }
  }
  return true;
}

}  // namespace

Result<Config> Config::read(const format::ConfigFiles& files, const std::string& model_type) {
  const json& root = *files.config;
  Config c;
  c.path = files.path;
  KeyReader top(root, files.path);
  const bool nested = model_type == "gemma4";
  KeyReader text(nested ? top.object("text_config") : root,
                 nested ? files.path + ": text_config" : files.path);
  FT_TRY(top.status());

  check_supported(text);
  read_sizes(text, c);
  read_experts(text, c);
  FT_TRY(text.status());  // the code below multiplies these
  read_layers(text, c);
  read_rope(text, "sliding_attention", c.sliding_rope);
  read_rope(text, "full_attention", c.full_rope);
  FT_TRY(text.status());

  FT_ASSIGN(blocks::Ends ends, blocks::read_ends(files, top, text, nested, c.vocab_size, c));
  c.eos_ids = std::move(ends.eos_ids), c.sampling = ends.sampling;
  KeyReader generation(*files.generation, files.generation_path());
  read_ids(generation, "suppress_tokens", c.vocab_size, c.suppressed_ids);
  FT_TRY(generation.status());
  c.rounds_scales = computes_in_bf16(top, text);
  FT_TRY(top.status());
  FT_TRY(text.status());
  FT_ASSIGN(c.quantisation, format::QuantisationMap::read(root, files.path));
  return c;
}

ModelFacts Config::facts() const {
  ModelFacts facts;
  facts.vocabulary = vocab_size, facts.width = hidden_size, facts.context = max_positions;
  facts.eos_ids = eos_ids, facts.suppressed_ids = suppressed_ids, facts.sampling = sampling;
  facts.layers = num_layers, facts.heads = num_heads, facts.intermediate = intermediate_size;
  facts.kv_heads = num_kv_heads, facts.head_dim = head_dim;
  for (const LayerConfig& layer : layers) {
    if (!layer.full) continue;
    ++facts.full_attention_layers;
    facts.kv_heads = layer.kv_heads, facts.head_dim = layer.head_dim;
  }
  return facts;
}

float Config::embedding_scale(int width) const {
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(width)));
  return rounds_scales ? format::bf16_to_float(format::float_to_bf16(scale)) : scale;
}

}  // namespace ft::gemma4
