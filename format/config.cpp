#include "format/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/mapped_file.h"
#include "format/config_sections.h"
#include "format/json_text.h"
#include "format/key_reader.h"
#include "format/out_of_memory.h"
#include "format/tensor.h"

namespace ft::format {
namespace {

using nlohmann::json;

// Limits: several times those of the largest published model, and small enough that products of three stay
// below 2^63.
constexpr int kMaxVocab = 4'000'000;
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxLayers = 1024;
constexpr int kMaxHeads = 4096;
constexpr int kMaxHeadDim = 4096;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 40;

struct Family {
  std::string_view model_type;
  bool moe;
};
constexpr std::array<Family, 4> kFamilies = {
    {{"qwen3_5", false}, {"qwen3_5_text", false}, {"qwen3_5_moe", true}, {"qwen3_5_moe_text", true}}};

Status read_family(KeyReader& top, ModelConfig& config) {
  config.model_type = top.text("model_type", "");
  FT_TRY(top.status());
  for (const Family& family : kFamilies) {
    if (family.model_type != config.model_type) continue;
    config.moe_family = family.moe;
    return {};
  }
  std::string supported;
  for (const Family& family : kFamilies)
    supported += (supported.empty() ? "" : ", ") + std::string(family.model_type);
  return Error{Code::kUnsupported,
               config.path + ": model_type: expected one of " + supported + ", found " +
                   (config.model_type.empty() ? "nothing" : in_quotes(config.model_type)) +
                   "; use a model of a supported family"};
}

void read_sizes(KeyReader& text, ModelConfig& c) {
  const bool moe = c.moe_family;
  c.vocab_size = text.whole("vocab_size", 248320, 1, kMaxVocab);
  c.hidden_size = text.whole("hidden_size", moe ? 2048 : 4096, 1, kMaxWidth);
  c.intermediate_size = text.whole("intermediate_size", 12288, 1, kMaxWidth);
  c.num_layers = text.whole("num_hidden_layers", moe ? 40 : 32, 1, kMaxLayers);
  c.num_heads = text.whole("num_attention_heads", 16, 1, kMaxHeads);
  c.num_kv_heads = text.whole("num_key_value_heads", moe ? 2 : 4, 1, kMaxHeads);
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
  if (const std::string act = text.text("hidden_act", "silu"); act != "silu") {
    text.fail(Code::kUnsupported, text.where() + ".hidden_act: expected silu, found " + in_quotes(act) +
                                      "; use a model of a supported family");
  }
}

void read_moe(KeyReader& text, ModelConfig& c) {
  if (!c.moe_family) return;
  c.moe.experts = text.whole("num_experts", 256, 1, 65536);
  c.moe.experts_per_token = text.whole("num_experts_per_tok", 8, 1, 65536);
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

void read_layer_types(KeyReader& text, ModelConfig& c) {
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

void add_draft_tokens(KeyReader& level, ModelConfig& c) {
  const json* value = level.find("eos_token_id");
  if (value == nullptr) return;
  const std::size_t count = value->is_array() ? value->size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const json& id = value->is_array() ? (*value)[i] : *value;
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(c.vocab_size)) {
      level.fail("eos_token_id", "token ids from 0 to vocab_size " + std::to_string(c.vocab_size) + " - 1",
                 value);
      return;
    }
    const int token = id.get<int>();
    if (std::count(c.eos_ids.begin(), c.eos_ids.end(), token) == 0) c.eos_ids.push_back(token);
  }
}

void read_generation(KeyReader& generation, ModelConfig& c) {
  add_draft_tokens(generation, c);
  SamplingDefaults& s = c.sampling;
  s.do_sample = generation.optional_flag("do_sample");
  s.temperature = generation.optional_real("temperature", 0.0, 100.0);
  s.top_k = generation.optional_whole("top_k", -1, kMaxVocab);
  if (s.top_k && *s.top_k < 0) s.top_k = 0;  // both mean no limit
  s.top_p = generation.optional_real("top_p", 0.0, 1.0);
  s.min_p = generation.optional_real("min_p", 0.0, 1.0);
  s.repetition_penalty = generation.optional_real("repetition_penalty", 1e-3, 100.0);
}

Result<JsonDocument> object_or_empty(const std::string& text, const std::string& path) {
  FT_ASSIGN(JsonDocument root, parse_json(text.empty() ? "{}" : text, path, DuplicateKeys::kLastWins));
  if (root->is_object()) return root;
  return Error{Code::kCorrupt, path + ": expected a JSON object, found " + std::string(root->type_name()) +
                                   "; download the file again"};
}

std::string sibling(const std::string& path, const char* name) {
  return (std::filesystem::path(path).parent_path() / name).string();
}

Result<ModelConfig> parse_texts(const std::string& config_text, const std::string& generation_text,
                                const std::string& runtime_text, const std::string& path) {
  const std::string generation_path = sibling(path, "generation_config.json");
  const std::string runtime_path = sibling(path, "mtplx_runtime.json");
  FT_ASSIGN(const JsonDocument root, object_or_empty(config_text, path));
  FT_ASSIGN(const JsonDocument generation_root, object_or_empty(generation_text, generation_path));
  FT_ASSIGN(const JsonDocument runtime_root, object_or_empty(runtime_text, runtime_path));

  ModelConfig c;
  c.path = path;
  KeyReader top(*root, path);
  FT_TRY(read_family(top, c));
  const bool nested = top.find("text_config") != nullptr;
  KeyReader text(nested ? top.object("text_config") : *root, nested ? path + ": text_config" : path);
  FT_TRY(top.status());

  read_sizes(text, c);
  FT_TRY(text.status());  // the code below multiplies these
  read_moe(text, c);
  read_layer_types(text, c);
  FT_TRY(text.status());
  FT_TRY(read_rope(text, c));

  KeyReader generation(*generation_root, generation_path);
  read_generation(generation, c);
  FT_TRY(generation.status());
  add_draft_tokens(top, c);
  if (nested) add_draft_tokens(text, c);
  c.bos_id = text.optional_whole("bos_token_id", 0, c.vocab_size - 1);
  const std::optional<bool> tied = top.optional_flag("tie_word_embeddings");
  c.tied = tied ? tied : text.optional_flag("tie_word_embeddings");
  FT_TRY(top.status());
  FT_TRY(text.status());

  KeyReader runtime(*runtime_root, runtime_path);
  FT_TRY(read_mtp_contract(top, text, runtime, c.mtp));
  FT_ASSIGN(c.quantisation, QuantisationMap::read(*root, path));
  return c;
}

Result<std::string> read_text(const std::string& path, bool required) {
  std::error_code ignored;  // open() reports what cannot be examined
  if (!required && !std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    return std::string();
  FT_ASSIGN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxConfigBytes) {
    return Error{Code::kCorrupt, path + ": expected at most " + std::to_string(kMaxConfigBytes) +
                                     " bytes, found " + std::to_string(file.bytes().size()) +
                                     "; download the file again"};
  }
  if (file.bytes().empty()) {
    return Error{Code::kCorrupt,
                 path + ": expected a JSON object, found an empty file; download the file again"};
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace

bool MtpContract::norms_are_delta() const {
  return norm_encoding == "delta" || norm_encoding == "delta_plus_one" || norm_encoding == "mlx_delta" ||
         norm_encoding == "raw_hf_delta";
}

Result<ModelConfig> ModelConfig::parse(const std::string& config, const std::string& generation_config,
                                       const std::string& runtime, const std::string& path) {
  return with_memory_guard("read it", path,
                           [&] { return parse_texts(config, generation_config, runtime, path); });
}

Result<ModelConfig> ModelConfig::read(const std::string& directory) {
  return with_memory_guard("read its configuration", directory, [&]() -> Result<ModelConfig> {
    const std::filesystem::path folder(directory);
    const std::string path = (folder / "config.json").string();
    FT_ASSIGN(const std::string config, read_text(path, true));
    FT_ASSIGN(const std::string generation, read_text((folder / "generation_config.json").string(), false));
    FT_ASSIGN(const std::string runtime, read_text((folder / "mtplx_runtime.json").string(), false));
    return parse_texts(config, generation, runtime, path);
  });
}

}  // namespace ft::format
