#include "models/qwen3_5/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "format/generation_config.h"
#include "format/key_reader.h"
#include "format/tensor.h"
#include "models/blocks/limits.h"
#include "models/blocks/sizes.h"
#include "models/qwen3_5/config_sections.h"

namespace ft::qwen3_5 {
namespace {

using format::in_quotes;
using format::KeyReader;
using format::kMaxVocabulary;
using nlohmann::json;

using blocks::kMaxHeadDim, blocks::kMaxHeads, blocks::kMaxLayers, blocks::kMaxPositions, blocks::kMaxWidth;

/// Where the config classes of transformers differ.
struct Defaults {
  int vocabulary, hidden, intermediate, layers, kv_heads;
  int experts = 0, experts_per_token = 0;
};
constexpr Defaults kDense = {248320, 4096, 12288, 32, 4};
constexpr Defaults kSparse = {248320, 2048, 12288, 40, 2, 256, 8};
constexpr Defaults kNext = {151936, 2048, 5632, 48, 2, 512, 10};

const Defaults& defaults_of(const Config& c) { return c.next ? kNext : c.moe_family ? kSparse : kDense; }

void read_sizes(KeyReader& text, Config& c) {
  const Defaults& defaults = defaults_of(c);
  c.vocab_size = text.whole("vocab_size", defaults.vocabulary, 1, kMaxVocabulary);
  c.hidden_size = text.whole("hidden_size", defaults.hidden, 1, kMaxWidth);
  c.intermediate_size = text.whole("intermediate_size", defaults.intermediate, 1, kMaxWidth);
  c.num_layers = text.whole("num_hidden_layers", defaults.layers, 1, kMaxLayers);
  c.num_heads = text.whole("num_attention_heads", 16, 1, kMaxHeads);
  c.num_kv_heads = text.whole("num_key_value_heads", defaults.kv_heads, 1, kMaxHeads);
  c.head_dim = text.whole("head_dim", 256, 2, kMaxHeadDim);
  c.rms_norm_eps = text.real("rms_norm_eps", 1e-6, 0.0, 1.0);
  c.max_positions = text.whole64("max_position_embeddings", 32768, 1, kMaxPositions);
  c.attention_bias = text.flag("attention_bias", false);
  c.attn_output_gate = text.flag("attn_output_gate", true);
  c.conv_kernel = text.whole("linear_conv_kernel_dim", 4, 1, 64);
  c.linear_key_dim = text.whole("linear_key_head_dim", 128, 1, kMaxHeadDim);
  c.linear_value_dim = text.whole("linear_value_head_dim", 128, 1, kMaxHeadDim);
  c.linear_key_heads = text.whole("linear_num_key_heads", 16, 1, kMaxHeads);
  c.linear_value_heads = text.whole("linear_num_value_heads", 32, 1, kMaxHeads);

  if (c.num_heads % c.num_kv_heads != 0) {
    text.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(c.num_heads),
              text.find("num_key_value_heads"));
  }
  if (c.head_dim % 2 != 0) text.fail("head_dim", "an even number", text.find("head_dim"));
  if (c.linear_value_heads % c.linear_key_heads != 0) {
    text.fail("linear_num_key_heads",
              "a divisor of linear_num_value_heads " + std::to_string(c.linear_value_heads),
              text.find("linear_num_key_heads"));
  }
  if (const std::string act = text.text("hidden_act", "silu"); act != "silu")
    blocks::refuse(text, "hidden_act", "silu", in_quotes(act));
}

void read_moe(KeyReader& text, Config& c) {
  if (!c.moe_family) return;
  c.moe.experts = text.whole("num_experts", defaults_of(c).experts, 1, 65536);
  c.moe.experts_per_token = text.whole("num_experts_per_tok", defaults_of(c).experts_per_token, 1, 65536);
  c.moe.expert_size = text.whole("moe_intermediate_size", 512, 1, kMaxWidth);
  c.moe.shared_size = text.whole("shared_expert_intermediate_size", 512, 1, kMaxWidth);
  c.moe.norm_topk = text.flag("norm_topk_prob", true);
  if (c.moe.experts_per_token > c.moe.experts) {
    text.fail("num_experts_per_tok", "at most num_experts " + std::to_string(c.moe.experts),
              text.find("num_experts_per_tok"));
  }
  const json* dense = text.find("mlp_only_layers");
  if (dense != nullptr && !(dense->is_array() && dense->empty())) {
    text.fail(Code::kUnsupported, text.where() +
                                      ".mlp_only_layers: expected an empty list, found layers that are "
                                      "dense; use a model without them");
  }
  if (text.whole("decoder_sparse_step", 1, 1, kMaxLayers) != 1) {
    text.fail(Code::kUnsupported, text.where() +
                                      ".decoder_sparse_step: expected 1, found another step; use a model "
                                      "whose layers are all sparse");
  }
}

void read_layer_types(KeyReader& text, Config& c) {
  const int interval = text.whole("full_attention_interval", 4, 1, kMaxLayers);
  const auto layers = static_cast<std::size_t>(c.num_layers);
  const json* types = text.find("layer_types");
  if (types == nullptr) {
    for (int i = 0; i < c.num_layers; ++i) {
      c.layer_types.push_back((i + 1) % interval == 0 ? LayerType::kFullAttention
                                                      : LayerType::kLinearAttention);
    }
    return;
  }
  if (!types->is_array() || types->size() != layers) {
    text.fail("layer_types", "a list of " + std::to_string(layers) + " types (num_hidden_layers)", types);
    return;
  }
  for (const json& type : *types) {
    // A comparison `type == "..."` makes a copy in this library and, being noexcept, ends the process when
    // memory runs out.
    const auto* word = type.get_ptr<const std::string*>();
    const bool full = word != nullptr && *word == "full_attention";
    if (!full && (word == nullptr || *word != "linear_attention")) {
      text.fail("layer_types", "only 'linear_attention' and 'full_attention'", &type);
      return;
    }
    c.layer_types.push_back(full ? LayerType::kFullAttention : LayerType::kLinearAttention);
  }
}

}  // namespace

bool MtpContract::norms_are_delta() const {
  return norm_encoding == "delta" || norm_encoding == "delta_plus_one" || norm_encoding == "mlx_delta" ||
         norm_encoding == "raw_hf_delta";
}

Result<Config> Config::read(const format::ConfigFiles& files, const std::string& model_type) {
  const json& root = *files.config;
  const std::string& path = files.path;
  Config c;
  c.path = path;
  c.next = model_type == "qwen3_next";
  c.moe_family = c.next || model_type.starts_with("qwen3_5_moe");
  KeyReader top(root, path);
  const bool nested = top.find("text_config") != nullptr;
  KeyReader text(nested ? top.object("text_config") : root, nested ? path + ": text_config" : path);
  FT_TRY(top.status());

  read_sizes(text, c);
  FT_TRY(text.status());  // the code below multiplies these
  read_moe(text, c);
  read_layer_types(text, c);
  FT_TRY(text.status());
  FT_TRY(read_rope(text, c));

  FT_ASSIGN(blocks::Ends ends, blocks::read_ends(files, top, text, nested, c.vocab_size, c));
  c.eos_ids = std::move(ends.eos_ids), c.sampling = ends.sampling;
  c.bos_id = text.optional_whole("bos_token_id", 0, c.vocab_size - 1);
  FT_TRY(text.status());

  KeyReader runtime(*files.runtime, files.runtime_path());
  FT_TRY(read_mtp_contract(top, text, runtime, c.mtp));
  c.mtp.by_tensors = c.next && text.find("mtp_num_hidden_layers") == nullptr;
  KeyReader pictures(*files.pictures, files.pictures_path());
  FT_TRY(read_vision(top, pictures, c));
  FT_ASSIGN(c.quantisation, format::QuantisationMap::read(root, path));
  return c;
}

ModelFacts Config::facts() const {
  ModelFacts facts;
  facts.vocabulary = vocab_size, facts.width = hidden_size, facts.context = max_positions;
  facts.eos_ids = eos_ids, facts.sampling = sampling;
  facts.layers = num_layers;
  facts.full_attention_layers =
      static_cast<int>(std::count(layer_types.begin(), layer_types.end(), LayerType::kFullAttention));
  facts.heads = num_heads, facts.kv_heads = num_kv_heads, facts.head_dim = head_dim;
  facts.intermediate = moe.experts > 0 ? moe.shared_size : intermediate_size;
  facts.experts = moe.experts;
  if (moe.experts > 0) facts.experts_per_token = moe.experts_per_token, facts.expert_size = moe.expert_size;
  return facts;
}

}  // namespace ft::qwen3_5
