#include "models/gguf/architecture.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "format/tensor.h"
#include "models/not_implemented.h"

namespace ft::gguf {
namespace {

struct Row {
  std::string_view name, family;
  Result<std::unique_ptr<Architecture>> (*open)(const format::GgufFile&, const std::string&);
};
constexpr Row kArchitectures[] = {
    {"llama", "llama", open_llama},           {"smollm3", "llama", open_llama},
    {"granite", "llama", open_llama},         {"qwen2", "llama", open_llama},
    {"qwen3", "llama", open_llama},           {"qwen3moe", "llama", open_llama},
    {"gpt-oss", "gpt_oss", open_gpt_oss},     {"gemma4", "gemma4", open_gemma4},
    {"qwen35", "qwen3_5", open_qwen35},       {"qwen35moe", "qwen3_5", open_qwen35},
    {"qwen3next", "qwen3_next", open_qwen35}, {"glm4moe", "glm4_moe", open_glm4moe},
    {"mistral3", "llama", open_llama},
};

/// Architectures whose models have parts that no instruction computes.
constexpr struct {
  std::string_view name, parts;
} kRefused[] = {
    {"deepseek2", "latent attention (MLA)"},
    {"qwen4exp", "sparse attention, hyper-connections, a table of n-grams"},
};

Result<const Row*> find_row(const std::string& name, const std::string& path) {
  std::string known;
  for (const Row& row : kArchitectures) {
    if (row.name == name) return &row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  std::string_view lacking;
  for (const auto& [refused, parts] : kRefused) {
    if (refused == name) lacking = parts;
  }
  return Error{Code::kUnsupported, path + ": general.architecture: expected one of " + known + ", found " +
                                       format::in_quotes(name) + not_implemented(lacking) +
                                       "; use a model of a supported family"};
}

}  // namespace

Result<std::unique_ptr<Architecture>> find_architecture(const format::GgufFile& file,
                                                        const std::string& path) {
  FT_ASSIGN(const Row* row, find_row(file.text("general.architecture", ""), path));
  return row->open(file, path);
}

Result<std::string> family_of(const std::string& architecture, const std::string& path) {
  FT_ASSIGN(const Row* row, find_row(architecture, path));
  return std::string(row->family);
}

std::optional<BlockName> block_name(std::string_view gguf) {
  constexpr std::string_view kBlock = "blk.";
  if (!gguf.starts_with(kBlock)) return std::nullopt;
  BlockName found;
  const char* const last = gguf.data() + gguf.size();
  const auto [end, failed] = std::from_chars(gguf.data() + kBlock.size(), last, found.block);
  if (failed != std::errc() || end == last || *end != '.' || found.block < 0) return std::nullopt;
  found.rest = gguf.substr(static_cast<std::size_t>(end - gguf.data()) + 1);
  return found;
}

std::string experts_name(const format::GgufFile& file, const BlockName& block) {
  if (block.rest == "ffn_gate_up_exps.weight") return "mlp.experts.gate_up_proj";
  if (block.rest == "ffn_gate_exps.weight") return "mlp.switch_mlp.gate_proj.weight";
  if (block.rest == "ffn_up_exps.weight") return "mlp.switch_mlp.up_proj.weight";
  if (block.rest != "ffn_down_exps.weight") return "";
  const bool fused = has_tensor(file, "blk." + std::to_string(block.block) + ".ffn_gate_up_exps.weight");
  return fused ? "mlp.experts.down_proj" : "mlp.switch_mlp.down_proj.weight";
}

std::int64_t vocabulary_of(const format::GgufFile& file) {
  for (const format::GgufTensor& tensor : file.tensors) {
    if (tensor.name == "token_embd.weight" && tensor.shape.size() == 2) return tensor.shape[0];
  }
  return 0;
}

bool has_tensor(const format::GgufFile& file, std::string_view name) {
  return std::ranges::any_of(file.tensors,
                             [&](const format::GgufTensor& tensor) { return tensor.name == name; });
}

}  // namespace ft::gguf
