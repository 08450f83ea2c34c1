#include "models/dflash/config.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "format/key_reader.h"
#include "models/blocks/limits.h"

namespace ft::dflash {
namespace {

using format::KeyReader;
using nlohmann::json;

constexpr int kMaxBlock = 256;
constexpr int kMaxLayers = 64, kMaxWidth = 1 << 17;

void read_shape(KeyReader& top, Config& config) {
  config.hidden = top.whole("hidden_size", 0, 1, kMaxWidth);
  config.layers = top.whole("num_hidden_layers", 0, 1, kMaxLayers);
  config.heads = top.whole("num_attention_heads", 0, 1, 4096);
  config.kv_heads = top.whole("num_key_value_heads", config.heads, 1, 4096);
  config.head_dim = top.whole("head_dim", config.heads > 0 ? config.hidden / config.heads : 0, 2, 4096);
  config.intermediate = top.whole("intermediate_size", 0, 1, kMaxWidth * 8);
  config.vocabulary = top.whole("vocab_size", 0, 1, 1 << 24);
  config.eps = top.real("rms_norm_eps", 1e-6, 0, 1);
  config.softcap = top.real("final_logit_softcapping", 0, 0, 1e6);
}

/// round(linspace(1, target - 3, layers)), or the middle layer for one.
std::vector<int> default_layers(int layers, int target) {
  if (layers == 1) return {target / 2};
  std::vector<int> list;
  for (int i = 0; i < layers; ++i)
    list.push_back(static_cast<int>(std::lround(1 + (target - 4.0) * i / (layers - 1))));
  return list;
}

std::vector<int> read_layers(KeyReader& own, const Config& config, int target) {
  const json* list = own.find("target_layer_ids");
  if (list == nullptr) return default_layers(config.layers, target);
  std::vector<int> ids;
  const auto good = [](const json& id) { return id.is_number_integer() && id >= 0 && id < (1 << 16); };
  for (const json& id : list->is_array() ? *list : json::array({nullptr})) {
    if (!good(id)) {
      own.fail("target_layer_ids", "a list of layers, counted from 0", list);
      return {};
    }
    ids.push_back(id.get<int>());
  }
  return ids;
}

/// A layer is causal inside the block if the config says so; by default, sliding layers are.
void read_attention(KeyReader& top, KeyReader& own, Config& config) {
  const std::optional<bool> causal = own.optional_flag("causal");
  const std::optional<bool> is_causal = top.optional_flag("is_causal");
  const int window = own.whole("draft_window_size", top.whole("sliding_window", 0, 0, 1 << 24), 0, 1 << 24);
  const json* types = top.find("layer_types");
  for (int i = 0; i < config.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool listed = types != nullptr && types->is_array() && at < types->size();
    const bool sliding = listed ? (*types)[at] == "sliding_attention" : top.flag("use_sliding_window", false);
    if (types != nullptr && (!listed || (!sliding && (*types)[at] != "full_attention")))
      top.fail("layer_types", "full_attention or sliding_attention for each layer", types);
    config.windows.push_back(sliding ? window : 0);
    config.causal.push_back(causal.value_or(is_causal.value_or(sliding)) ? 1 : 0);
    if (sliding && window == 0) top.fail("sliding_window", "a window for its sliding layers", nullptr);
    if (sliding && config.causal.back() == 0)
      top.fail(Code::kUnsupported, top.where() +
                                       ": a sliding layer that is not causal is not supported; use a drafter "
                                       "whose is_causal is absent or true");
  }
}

void check_supported(KeyReader& top, KeyReader& own) {
  const json* names = top.find("architectures");
  const json first = names != nullptr && names->is_array() && !names->empty() ? names->front() : json();
  if (first != "DFlashDraftModel")
    top.fail("architectures", "[\"DFlashDraftModel\"]: other designs are not supported", names);
  if (top.flag("attention_bias", false))
    top.fail(Code::kUnsupported,
             top.where() + ": attention_bias: true is not supported; use a published drafter");
  if (own.flag("attention_sink_bias", false))
    top.fail(Code::kUnsupported,
             top.where() + ": attention_sink_bias: true is not supported; use a published drafter");
}

void check_target(KeyReader& top, const Config& config, const ModelFacts& target) {
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
}

}  // namespace

Result<Config> Config::read(const format::ConfigFiles& files, const ModelFacts& target) {
  KeyReader top(*files.config, files.path);
  KeyReader own(top.object("dflash_config"), files.path + ": dflash_config");
  check_supported(top, own);
  FT_TRY(top.status());
  Config config;
  read_shape(top, config);
  config.rope = blocks::read_rope(
      top,
      {1e7, 1, config.head_dim, top.whole64("max_position_embeddings", 32768, 1, blocks::kMaxPositions)});
  read_attention(top, own, config);
  config.block = own.whole("block_size", top.whole("block_size", 16, 2, kMaxBlock), 2, kMaxBlock);
  config.block = std::min(config.block, own.whole("runtime_block_size", config.block, 2, kMaxBlock));
  config.mask_token = own.whole("mask_token_id", -1, 0, 1 << 24);
  if (config.mask_token < 0) own.fail("mask_token_id", "the id of the mask token", nullptr);
  config.captures.layers = read_layers(own, config, target.layers);
  check_target(top, config, target);
  FT_TRY(top.status());
  FT_TRY(own.status());
  return config;
}

}  // namespace ft::dflash
