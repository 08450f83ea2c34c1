#include "models/eagle3/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

#include "format/generation_config.h"
#include "format/key_reader.h"
#include "models/blocks/limits.h"

namespace ft::eagle3 {
namespace {

using format::in_quotes;
using format::KeyReader;
using nlohmann::json;

using blocks::kMaxHeadDim, blocks::kMaxHeads, blocks::kMaxWidth;
constexpr int kMaxLayers = 64;

void read_shape(KeyReader& sizes, Config& c) {
  c.hidden = sizes.whole("hidden_size", 0, 1, kMaxWidth);
  c.layers = sizes.whole("num_hidden_layers", 1, 1, kMaxLayers);
  c.heads = sizes.whole("num_attention_heads", 0, 1, kMaxHeads);
  c.kv_heads = sizes.whole("num_key_value_heads", c.heads, 1, kMaxHeads);
  c.head_dim = sizes.whole("head_dim", c.heads > 0 ? c.hidden / c.heads : 0, 2, kMaxHeadDim);
  c.intermediate = sizes.whole("intermediate_size", 0, 1, kMaxWidth);
  c.vocabulary = sizes.whole("vocab_size", 0, 1, format::kMaxVocabulary);
  c.eps = sizes.real("rms_norm_eps", 1e-6, 0, 1);
  for (const char* key : {"hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    if (sizes.find(key) == nullptr) sizes.fail(key, "a number", nullptr);
  }
  if (!sizes.status().ok()) return;
  if (c.heads % c.kv_heads != 0) {
    sizes.fail("num_key_value_heads", fmt::format("a divisor of num_attention_heads {}", c.heads),
               sizes.find("num_key_value_heads"));
  }
  if (sizes.flag("use_sliding_window", false)) c.window = sizes.whole("sliding_window", 0, 1, 1 << 30);
}

void check_supported(KeyReader& top, KeyReader& sizes) {
  const std::string type = top.text("speculators_model_type", "eagle3");
  if (type != "eagle3") {
    top.fail(Code::kUnsupported, fmt::format("{}: speculators_model_type: expected eagle3, found {}; use an "
                                             "EAGLE-3 drafter",
                                             top.where(), in_quotes(type)));
  }
  if (const std::string act = sizes.text("hidden_act", "silu"); act != "silu") {
    sizes.fail(Code::kUnsupported,
               fmt::format("{}.hidden_act: expected silu, found {}; use a published drafter", sizes.where(),
                           in_quotes(act)));
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (!sizes.flag(key, false)) continue;
    sizes.fail(Code::kUnsupported,
               fmt::format("{}.{}: true is not supported; use a published drafter", sizes.where(), key));
  }
}

/// The layers whose output the drafter reads. Lists have two conventions. In most, k is the boundary before
/// layer k, that is, the output of layer k - 1. Some trainers write the layers themselves; their default list
/// for n layers, {1, n / 2 - 1, n - 4}, is the boundaries {2, n / 2, n - 3} less one. No field of the file
/// distinguishes them, and no trainer uses boundary 1, so a list that begins with 1 lists layers.
int layer_of(int id, int first_id) { return first_id == 1 ? id : id - 1; }

void read_layers(KeyReader& top, Config& c, int layers) {
  KeyReader own(top.object("eagle_config"), top.where() + ": eagle_config");
  const char* key = "eagle_aux_hidden_state_layer_ids";
  KeyReader& level = top.find(key) == nullptr && own.find(key) != nullptr ? own : top;
  const json* list = level.find(key);
  if (list == nullptr) {
    c.captures.layers = {1, layers / 2 - 1, layers - 4};
    return;
  }
  bool good = list->is_array() && !list->empty() && list->size() <= 8;
  for (std::size_t i = 0; good && i < list->size(); ++i) {
    const json& id = (*list)[i];
    good = id.is_number_unsigned() && id.get<std::uint64_t>() < (1U << 16);
    if (good) c.captures.layers.push_back(layer_of(id.get<int>(), list->front().get<int>()));
  }
  if (!good) level.fail(key, "a list of up to 8 layers", list);
  if (!level.status().ok() && top.status().ok())
    top.fail(level.status().error().code, level.status().error().message);
}

void check_target(KeyReader& top, const Config& c, const ModelFacts& target) {
  const auto differs = [&](const char* key, int own, int of_target) {
    if (own == of_target) return;
    top.fail(Code::kInvalid,
             fmt::format("{}: {} is {}, but the target's is {}; use the drafter of this target", top.where(),
                         key, own, of_target));
  };
  differs("vocab_size", c.vocabulary, target.vocabulary);
  differs("the width of the target's hidden rows", c.target_hidden, target.width);
  if (c.draft_vocabulary > c.vocabulary) {
    top.fail("draft_vocab_size", fmt::format("at most vocab_size {}", c.vocabulary),
             top.find("draft_vocab_size"));
  }
  if (c.norm_before_fc && c.fc_norm) {
    top.fail("fc_norm", "false where norm_before_fc is true", top.find("fc_norm"));
  }
}

}  // namespace

Result<Config> Config::read(const format::ConfigFiles& files, const ModelFacts& target) {
  KeyReader top(*files.config, files.path);
  const bool nested = top.find("transformer_layer_config") != nullptr;
  KeyReader sizes(nested ? top.object("transformer_layer_config") : *files.config,
                  nested ? files.path + ": transformer_layer_config" : files.path);
  check_supported(top, sizes);
  Config c;
  read_shape(sizes, c);
  FT_TRY(top.status());
  FT_TRY(sizes.status());
  c.rope = blocks::read_rope(
      sizes, {1e4, 1, c.head_dim, sizes.whole64("max_position_embeddings", 2048, 1, blocks::kMaxPositions)});
  c.draft_vocabulary =
      top.whole("draft_vocab_size", nested ? 32000 : c.vocabulary, 1, format::kMaxVocabulary);
  c.target_hidden = top.whole("target_hidden_size", c.hidden, 1, kMaxWidth);
  c.norm_before_residual = top.flag("norm_before_residual", false);
  c.norm_before_fc = top.flag("norm_before_fc", false);
  c.fc_norm = top.flag("fc_norm", false);
  c.norm_output = top.flag("norm_output", false);
  c.own_embedding = top.flag("embed_requires_grad", false);
  read_layers(top, c, target.layers);
  check_target(top, c, target);
  FT_TRY(sizes.status());
  FT_TRY(top.status());
  FT_ASSIGN(c.quantisation, format::QuantisationMap::read(*files.config, files.path));
  return c;
}

}  // namespace ft::eagle3
