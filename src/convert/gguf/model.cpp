#include "convert/gguf/model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/checksum.h"
#include "base/mapped_file.h"
#include "convert/gguf/blocks.h"
#include "convert/gguf/container.h"
#include "convert/gguf/tokenizer.h"

namespace ft::convert {
namespace {

using format::DType;
using nlohmann::json;

/// Owns the data of the views of a Source.
struct Opened {
  MappedFile file;
  GgufFile contents;
  std::deque<std::vector<float>> vectors;  // decoded
  std::deque<format::TensorView> views;
};

struct Sizes {
  std::int64_t layers = 0, heads_of_keys = 1, heads_of_values = 1, key_size = 128, value_size = 128, conv = 4;
};

enum class Order { kPlain, kRows, kRowsAfterKeys, kColumns, kDecay };

struct NameRow {
  std::string_view gguf, own;
  Order order = Order::kPlain;
};

constexpr NameRow kLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight", Order::kRowsAfterKeys},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight", Order::kRows},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight", Order::kRows},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight", Order::kRows},
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight", Order::kRowsAfterKeys},
    {"ssm_norm.weight", "linear_attn.norm.weight"},
    {"ssm_out.weight", "linear_attn.out_proj.weight", Order::kColumns},
    {"ssm_a", "linear_attn.A_log", Order::kDecay},
    {"ssm_dt.bias", "linear_attn.dt_bias", Order::kRows},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_exps.weight", "mlp.switch_mlp.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.switch_mlp.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.switch_mlp.down_proj.weight"},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
};
constexpr NameRow kHeadNames[] = {
    {"nextn.eh_proj.weight", "fc.weight"},
    {"nextn.enorm.weight", "pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "pre_fc_norm_hidden.weight"},
    {"nextn.shared_head_norm.weight", "norm.weight"},
};
constexpr NameRow kOtherNames[] = {
    {"token_embd.weight", "model.language_model.embed_tokens.weight"},
    {"output_norm.weight", "model.language_model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

struct Named {
  std::string name;
  Order order = Order::kPlain;
};

/// The checkpoint's name of a tensor; empty if there is none.
std::optional<Named> own_name(std::string_view gguf, std::int64_t layers) {
  for (const NameRow& row : kOtherNames) {
    if (row.gguf == gguf) return Named{std::string(row.own)};
  }
  if (!gguf.starts_with("blk.")) return std::nullopt;
  std::int64_t layer = -1;
  const auto [end, failed] = std::from_chars(gguf.data() + 4, gguf.data() + gguf.size(), layer);
  if (failed != std::errc() || end == gguf.data() + gguf.size() || layer < 0) return std::nullopt;
  const std::string_view rest = gguf.substr(static_cast<std::size_t>(end - gguf.data()) + 1);
  const bool head = layer >= layers;
  for (const NameRow& row : kHeadNames) {
    if (head && row.gguf == rest) return Named{"mtp." + std::string(row.own)};
  }
  const std::string prefix = head ? "mtp.layers." + std::to_string(layer - layers) + "."
                                  : "model.language_model.layers." + std::to_string(layer) + ".";
  for (const NameRow& row : kLayerNames) {
    if (row.gguf == rest) return Named{prefix + std::string(row.own), row.order};
  }
  return std::nullopt;
}

/// Value head h = k * r + j of the checkpoint is head j * K + k of the file.
std::vector<std::int64_t> head_order(const Sizes& sizes) {
  const std::int64_t each = sizes.heads_of_values / sizes.heads_of_keys;
  std::vector<std::int64_t> order;
  for (std::int64_t h = 0; h < sizes.heads_of_values; ++h)
    order.push_back(h % each * sizes.heads_of_keys + h / each);
  return order;
}

class GgufReader {
 public:
  GgufReader(Opened& opened, const std::string& path, const Sizes& sizes, bool float32_scales)
      : opened_(opened),
        path_(path),
        sizes_(sizes),
        float32_scales_(float32_scales),
        order_(head_order(sizes)) {}

  Result<std::vector<SourceTensor>> run() {
    std::vector<SourceTensor> list;
    for (const GgufTensor& tensor : opened_.contents.tensors) {
      if (tensor.name.starts_with("rope_freqs")) continue;
      const std::optional<Named> named = own_name(tensor.name, sizes_.layers);
      if (!named) {
        return format::tensor_error(Code::kUnsupported, path_, tensor.name, "a tensor of qwen35 or qwen35moe",
                                    "another", "use a text-only GGUF file of these models");
      }
      FT_ASSIGN(SourceTensor made, read(tensor, *named));
      list.push_back(std::move(made));
    }
    std::ranges::sort(list, {}, &SourceTensor::name);
    return list;
  }

 private:
  Result<SourceTensor> read(const GgufTensor& tensor, const Named& named) {
    std::vector<std::int64_t> shape = tensor.shape;
    if (named.name.ends_with("shared_expert_gate.weight") && shape.size() == 1)
      shape.insert(shape.begin(), 1);
    const bool vector = shape.size() < 2;
    const std::int64_t cols = vector ? 1 : shape.back();
    const std::int64_t rows = vector ? (shape.empty() ? 1 : shape[0]) : rows_of(shape);
    const std::int64_t stored_cols = shape.empty() ? 1 : shape.back();
    MatrixPointer matrix =
        gguf_matrix(tensor.type, vector ? 1 : rows, stored_cols, tensor.bytes.data(), float32_scales_);
    const std::int64_t keys = 2 * sizes_.heads_of_keys * sizes_.key_size;
    const std::int64_t first = named.order == Order::kRowsAfterKeys ? keys : 0;
    const std::int64_t ordered = named.order == Order::kColumns ? cols : rows - first;
    if (named.order != Order::kPlain && (ordered <= 0 || ordered % sizes_.heads_of_values != 0)) {
      return format::tensor_error(Code::kCorrupt, path_, tensor.name,
                                  std::to_string(sizes_.heads_of_values) + " value heads",
                                  format::shape_text(shape), "download the file again");
    }
    const std::int64_t block = named.order == Order::kPlain ? 1 : ordered / sizes_.heads_of_values;
    if (vector) return decoded(named, *matrix, rows, block);
    if (named.order == Order::kColumns) {
      if (block % 32 != 0 && matrix->codes().has_value())
        return format::tensor_error(Code::kUnsupported, path_, tensor.name, "value heads of a multiple of 32",
                                    std::to_string(block), "use a file of another type");
      matrix = columns_in_order(std::move(matrix), block, order_);
    } else if (named.order != Order::kPlain) {
      matrix = rows_in_order(std::move(matrix), first, block, order_);
    }
    if (named.name.ends_with("conv1d.weight")) shape.insert(shape.end() - 1, 1);
    return SourceTensor{named.name, std::move(shape), nullptr, std::move(matrix)};
  }

  /// Vectors are decoded at once: float32, in the checkpoint's order of heads.
  SourceTensor decoded(const Named& named, const MatrixSource& matrix, std::int64_t size,
                       std::int64_t block) {
    std::vector<float> stored(static_cast<std::size_t>(size));
    matrix.read(0, 1, stored.data());
    std::vector<float>& out = opened_.vectors.emplace_back(stored);
    if (named.order != Order::kPlain) {
      for (std::size_t h = 0; h < order_.size(); ++h) {
        std::copy_n(stored.begin() + order_[h] * block, block,
                    out.begin() + static_cast<std::int64_t>(h) * block);
      }
    }
    if (named.order == Order::kDecay) {
      for (float& value : out) value = std::log(-value);  // the file has -exp(A_log)
    }
    format::TensorView view;
    view.name = named.name, view.dtype = DType::kF32, view.shape = {size}, view.file = path_;
    view.bytes = std::as_bytes(std::span(out));
    opened_.views.push_back(std::move(view));
    const format::TensorView& kept = opened_.views.back();
    return {named.name, {size}, &kept, plain_matrix(kept)};
  }

  Opened& opened_;
  const std::string& path_;
  const Sizes& sizes_;
  bool float32_scales_;
  std::vector<std::int64_t> order_;
};

json rope_json(const GgufFile& file, const std::string& key, std::int64_t head_size) {
  json rope = {{"rope_type", "default"}, {"rope_theta", file.real(key + "rope.freq_base", 1e7)}};
  rope["partial_rotary_factor"] =
      static_cast<double>(file.whole(key + "rope.dimension_count", head_size / 4)) /
      static_cast<double>(head_size);
  const GgufValue* sections = file.find(key + "rope.dimension_sections");
  if (const auto* list = sections == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(sections);
      list != nullptr && list->size() >= 3) {
    rope["mrope_section"] = {(*list)[0], (*list)[1], (*list)[2]};
    rope["mrope_interleaved"] = true;
  }
  return rope;
}

json config_json(const GgufFile& file, const std::string& architecture, const Sizes& sizes) {
  const std::string key = architecture + ".";
  const auto whole = [&](const char* name, std::int64_t otherwise) {
    return file.whole(key + name, otherwise);
  };
  const std::int64_t head_size = whole("attention.key_length", 256);
  const bool moe = architecture == "qwen35moe";
  bool tied = true;
  std::int64_t vocabulary = 0;
  for (const GgufTensor& tensor : file.tensors) {
    tied = tied && tensor.name != "output.weight";
    if (tensor.name == "token_embd.weight" && tensor.shape.size() == 2) vocabulary = tensor.shape[0];
  }
  json text = {{"model_type", moe ? "qwen3_5_moe_text" : "qwen3_5_text"},
               {"vocab_size", vocabulary},
               {"hidden_size", whole("embedding_length", 0)},
               {"intermediate_size", whole("feed_forward_length", 0)},
               {"num_hidden_layers", sizes.layers},
               {"num_attention_heads", whole("attention.head_count", 0)},
               {"num_key_value_heads", whole("attention.head_count_kv", 0)},
               {"head_dim", head_size},
               {"rms_norm_eps", file.real(key + "attention.layer_norm_rms_epsilon", 1e-6)},
               {"max_position_embeddings", whole("context_length", 32768)},
               {"full_attention_interval", whole("full_attention_interval", 4)},
               {"attn_output_gate", true},
               {"linear_conv_kernel_dim", sizes.conv},
               {"linear_key_head_dim", sizes.key_size},
               {"linear_value_head_dim", sizes.value_size},
               {"linear_num_key_heads", sizes.heads_of_keys},
               {"linear_num_value_heads", sizes.heads_of_values},
               {"mtp_num_hidden_layers", whole("nextn_predict_layers", 0)},
               {"tie_word_embeddings", tied},
               {"rope_parameters", rope_json(file, key, head_size)}};
  if (moe) {
    text["num_experts"] = whole("expert_count", 0);
    text["num_experts_per_tok"] = whole("expert_used_count", 0);
    text["moe_intermediate_size"] = whole("expert_feed_forward_length", 0);
    text["shared_expert_intermediate_size"] = whole("expert_shared_feed_forward_length", 0);
  }
  if (const std::int64_t eos = file.whole("tokenizer.ggml.eos_token_id", -1); eos >= 0)
    text["eos_token_id"] = eos;
  return {{"model_type", moe ? "qwen3_5_moe" : "qwen3_5"},
          {"architectures", {moe ? "Qwen3_5MoeForConditionalGeneration" : "Qwen3_5ForConditionalGeneration"}},
          {"tie_word_embeddings", tied},
          {"text_config", std::move(text)}};
}

Result<Sizes> read_sizes(const GgufFile& file, const std::string& architecture, const std::string& path) {
  const std::string key = architecture + ".";
  Sizes sizes;
  sizes.layers = file.whole(key + "block_count", 0) - file.whole(key + "nextn_predict_layers", 0);
  sizes.heads_of_keys = file.whole(key + "ssm.group_count", 0);
  sizes.heads_of_values = file.whole(key + "ssm.time_step_rank", 0);
  sizes.key_size = file.whole(key + "ssm.state_size", 0);
  sizes.conv = file.whole(key + "ssm.conv_kernel", 4);
  const std::int64_t inner = file.whole(key + "ssm.inner_size", 0);
  constexpr std::int64_t kMax = 1 << 20;
  const auto good = [](std::int64_t value) { return value >= 1 && value <= kMax; };
  if (!good(sizes.layers) || !good(sizes.heads_of_keys) || !good(sizes.heads_of_values) ||
      !good(sizes.key_size) || !good(inner) || sizes.heads_of_values % sizes.heads_of_keys != 0 ||
      inner % sizes.heads_of_values != 0) {
    return Error{Code::kCorrupt, path + ": its metadata lacks layers and sizes of the gated delta rule (" +
                                     key + "block_count, ssm.*); download the file again"};
  }
  sizes.value_size = inner / sizes.heads_of_values;
  return sizes;
}

std::string types_text(const GgufFile& file) {
  std::map<std::string, std::uint64_t> bytes;
  for (const GgufTensor& tensor : file.tensors) bytes[gguf_type_name(tensor.type)] += tensor.bytes.size();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most == bytes.end() ? "GGUF" : "GGUF, mostly " + most->first;
}

}  // namespace

Result<Source> open_gguf(const std::string& path, bool float32_scales) {
  auto opened = std::make_shared<Opened>();
  FT_ASSIGN(opened->file, MappedFile::open(path));
  FT_ASSIGN(opened->contents, parse_gguf(opened->file.bytes(), path));
  const GgufFile& file = opened->contents;
  if (file.whole("split.count", 1) > 1) {
    return Error{Code::kUnsupported,
                 path + ": is one part of several; join them with llama-gguf-split --merge"};
  }
  const std::string architecture = file.text("general.architecture", "");
  if (architecture != "qwen35" && architecture != "qwen35moe") {
    return Error{Code::kUnsupported, path + ": general.architecture: expected qwen35 or qwen35moe, found " +
                                         format::in_quotes(architecture) +
                                         "; convert the original repository instead"};
  }
  FT_ASSIGN(const Sizes sizes, read_sizes(file, architecture, path));
  Source source;
  source.directory = path;
  source.format = types_text(file);
  source.quantised = true, source.shifted_norms = true;
  source.config = format::JsonDocument(new json(config_json(file, architecture, sizes)));
  FT_ASSIGN(source.tensors, GgufReader(*opened, source.directory, sizes, float32_scales).run());
  source.made_files = tokenizer_files(file);
  source.fingerprint = fingerprint(path + " " + std::to_string(opened->file.bytes().size()) + " " +
                                   std::to_string(opened->file.modified_ns()));
  source.drop_pages = [opened] { opened->file.drop_pages(0, opened->file.bytes().size()); };
  source.owner = std::move(opened);
  return source;
}

}  // namespace ft::convert
