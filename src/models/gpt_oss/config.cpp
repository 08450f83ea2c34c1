#include "models/gpt_oss/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/blocks/layer_types.h"
#include "models/blocks/limits.h"
#include "program/instructions.h"

namespace ft::gpt_oss {
namespace {

using format::KeyReader;
using nlohmann::json;

constexpr blocks::Sizes kDefaults = {201088, 2880, 2880, 36, 64, 8, 64, 1e-5, 131072};
constexpr double kTheta = 150000;

/// Every second layer slides, the first one too, unless layer_types says otherwise.
void read_windows(KeyReader& text, const json& object, Config& c) {
  const bool is_null = object.contains("sliding_window") && text.find("sliding_window") == nullptr;
  const int window = text.whole("sliding_window", is_null ? 0 : 128, 1, 1 << 30);
  const std::optional<std::vector<bool>> slides = blocks::read_sliding_layers(text, c.windows.size());
  for (std::size_t i = 0; i < c.windows.size(); ++i)
    c.windows[i] = (slides ? (*slides)[i] : i % 2 == 0) ? window : 0;
}

void read_experts(KeyReader& text, Config& c) {
  const auto key = [&](const char* usual, const char* other) {
    return text.find(usual) == nullptr && text.find(other) != nullptr ? other : usual;
  };
  const char* chosen = key("num_experts_per_tok", "experts_per_token");
  c.experts = text.whole(key("num_local_experts", "num_experts"), 128, 1, kMaxExperts);
  c.experts_per_token = text.whole(chosen, 4, 1, kMaxExperts);
  if (c.experts_per_token > c.experts) {
    text.fail(chosen, "at most num_local_experts " + std::to_string(c.experts), text.find(chosen));
  }
  c.swiglu_alpha = text.real("swiglu_alpha", 1.702, 1e-6, 1e6);
  c.swiglu_limit = text.real("swiglu_limit", 7, 1e-6, 1e6);
}

/// Published models name their rotation; without it, GptOssConfig has this one.
json with_rotation(json object) {
  const auto has = [&](const char* key) { return object.contains(key) && !object[key].is_null(); };
  if (has("rope_parameters") || has("rope_scaling")) return object;
  object["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 32.0},
                               {"beta_fast", 32.0},   {"beta_slow", 1.0},
                               {"truncate", false},   {"original_max_position_embeddings", 4096}};
  return object;
}

}  // namespace

Result<Config> Config::read(const format::ConfigFiles& files) {
  Config c;
  c.path = files.path;
  const json object = files.config->is_object() ? with_rotation(*files.config) : *files.config;
  KeyReader text(object, files.path);
  c.sizes = blocks::read_sizes(text, kDefaults);
  FT_TRY(text.status());  // the code below multiplies these
  c.rope = blocks::read_rope(text, {kTheta, 1, c.sizes.head_dim, c.sizes.positions});
  if (c.rope.rotary_dim != c.sizes.head_dim)
    blocks::refuse(text, "partial_rotary_factor", "1", "a part of a head");
  c.windows.resize(static_cast<std::size_t>(c.sizes.layers));
  read_windows(text, object, c);
  read_experts(text, c);
  c.attention_bias = text.flag("attention_bias", true);
  FT_TRY(text.status());
  FT_ASSIGN(c.ends, blocks::read_ends(files, text, text, false, c.sizes.vocabulary, c));
  FT_ASSIGN(c.quantisation, format::QuantisationMap::read(object, files.path));
  return c;
}

ModelFacts Config::facts() const {
  ModelFacts facts;
  facts.vocabulary = sizes.vocabulary, facts.width = sizes.hidden, facts.context = sizes.positions;
  facts.eos_ids = ends.eos_ids, facts.sampling = ends.sampling;
  facts.layers = sizes.layers;
  facts.full_attention_layers = static_cast<int>(std::ranges::count(windows, 0));
  facts.heads = sizes.heads, facts.kv_heads = sizes.kv_heads, facts.head_dim = sizes.head_dim;
  facts.experts = experts;
  facts.experts_per_token = experts_per_token, facts.expert_size = sizes.intermediate;
  return facts;
}

}  // namespace ft::gpt_oss
