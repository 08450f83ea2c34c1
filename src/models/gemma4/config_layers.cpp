#include "models/gemma4/config_layers.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ft::gemma4 {
namespace {

using format::KeyReader;
using nlohmann::json;

constexpr int kFullEvery = 6;  // without layer_types: five sliding layers, then a full one

/// The last layer is a full one, whatever the list says (transformers does the same).
void read_types(KeyReader& text, Config& c) {
  const json* types = text.find("layer_types");
  const auto count = static_cast<std::size_t>(c.num_layers);
  c.layers.resize(count);
  if (types != nullptr && (!types->is_array() || types->size() != count)) {
    text.fail("layer_types", "a list of " + std::to_string(count) + " types (num_hidden_layers)", types);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    bool full = (i + 1) % kFullEvery == 0;
    if (types != nullptr) {
      const auto* word = (*types)[i].get_ptr<const std::string*>();
      full = word != nullptr && *word == "full_attention";
      if (!full && (word == nullptr || *word != "sliding_attention")) {
        text.fail("layer_types", "only 'sliding_attention' and 'full_attention'", &(*types)[i]);
        return;
      }
    }
    c.layers[i].full = full || i + 1 == count;
  }
}

void read_head_sizes(KeyReader& text, Config& c) {
  const int full_dim = text.whole("global_head_dim", 512, 2, 4096);
  const bool k_is_v = text.flag("attention_k_eq_v", false);
  const std::optional<int> full_kv_heads = text.optional_whole("num_global_key_value_heads", 1, 4096);
  for (LayerConfig& layer : c.layers) {
    layer.head_dim = layer.full ? full_dim : c.head_dim;
    layer.k_is_v = k_is_v && layer.full;
    layer.kv_heads = layer.k_is_v && full_kv_heads ? *full_kv_heads : c.num_kv_heads;
  }
  // Configs that a later transformers saved: {"5": {"head_dim": 512, ...}}, in place of the keys above.
  const json* overrides = text.find("per_layer_config");
  if (overrides == nullptr) return;
  KeyReader by_layer(text.object("per_layer_config"), text.where() + ".per_layer_config");
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    const std::string number = std::to_string(i);
    KeyReader keys(by_layer.object(number.c_str()), by_layer.where() + "." + number);
    LayerConfig& layer = c.layers[i];
    layer.head_dim = keys.whole("head_dim", layer.head_dim, 2, 4096);
    layer.kv_heads = keys.whole("num_key_value_heads", layer.kv_heads, 1, 4096);
    if (!keys.status().ok()) text.fail(keys.status().error().code, keys.status().error().message);
  }
  if (!by_layer.status().ok()) text.fail(by_layer.status().error().code, by_layer.status().error().message);
}

void check_heads(KeyReader& text, const Config& c) {
  for (const LayerConfig& layer : c.layers) {
    if (c.num_heads % layer.kv_heads != 0) {
      const char* key = layer.full ? "num_global_key_value_heads" : "num_key_value_heads";
      text.fail(key, "a divisor of num_attention_heads " + std::to_string(c.num_heads), text.find(key));
      return;
    }
    if (layer.head_dim % 2 != 0) {
      const char* key = layer.full ? "global_head_dim" : "head_dim";
      text.fail(key, "an even number", text.find(key));
      return;
    }
  }
}

/// The last layers read the keys and values of the last layer of their kind before them.
void share_caches(KeyReader& text, Config& c) {
  const int shared = text.whole("num_kv_shared_layers", 0, 0, c.num_layers - 1);
  const bool wide = text.flag("use_double_wide_mlp", false);
  const int first = c.num_layers - shared;
  int sources[2] = {-1, -1};  // of sliding and of full layers
  for (int i = 0; i < c.num_layers; ++i) {
    LayerConfig& layer = c.layers[static_cast<std::size_t>(i)];
    int& source = sources[layer.full ? 1 : 0];
    layer.intermediate = c.intermediate_size * (wide && i >= first ? 2 : 1);
    if (i < first) {
      source = i;
    } else if (source < 0) {
      text.fail("num_kv_shared_layers",
                "a number that leaves a layer of each kind with separate keys and values",
                text.find("num_kv_shared_layers"));
      return;
    } else {
      layer.cache_source = source;
    }
  }
}

}  // namespace

void read_layers(KeyReader& text, Config& config) {
  read_types(text, config);
  if (!text.status().ok()) return;
  read_head_sizes(text, config);
  check_heads(text, config);
  share_caches(text, config);
}

}  // namespace ft::gemma4
