#include "models/qwen3_5/names.h"

#include <fmt/format.h>
#include <utility>

#include "models/blocks/moe.h"

namespace ft::qwen3_5 {
namespace {

using HeadKind = HeadTensor::Kind;

// The most common spelling is first. Hugging Face, MLX, text-only exports, and the rest.
constexpr std::string_view kOfMtp[] = {"", "language_model.", "model."};
constexpr std::string_view kOfLmHead[] = {"", "language_model.", "model.language_model.", "model."};
constexpr std::string_view kOfVision[] = {"model.visual.", "vision_tower.", "visual."};
constexpr std::string_view kOfTarget[] = {"model.language_model.", "language_model.model.", "model.",
                                          "language_model.", ""};

void add_layer(std::vector<HeadTensor>& list, const std::string& prefix, const HeadSizes& s) {
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t cols) {
    list.push_back({prefix + name, HeadKind::kMatrix, rows, cols});
  };
  const auto norm = [&](const char* name, std::int64_t width) {
    list.push_back({prefix + name, HeadKind::kNorm, 1, width});
  };
  norm("input_layernorm", s.hidden);
  matrix("self_attn.q_proj", s.gated ? 2 * q : q, s.hidden);
  matrix("self_attn.k_proj", kv, s.hidden);
  matrix("self_attn.v_proj", kv, s.hidden);
  matrix("self_attn.o_proj", s.hidden, q);
  norm("self_attn.q_norm", s.head_dim);
  norm("self_attn.k_norm", s.head_dim);
  norm("post_attention_layernorm", s.hidden);
  const bool moe = s.experts > 0;
  const std::string mlp = moe ? "mlp.shared_expert." : "mlp.";
  const std::int64_t wide = moe ? s.shared : s.intermediate;
  matrix(mlp + "gate_proj", wide, s.hidden);
  matrix(mlp + "up_proj", wide, s.hidden);
  matrix(mlp + "down_proj", s.hidden, wide);
  if (!moe) return;
  matrix("mlp.gate", s.experts, s.hidden);
  matrix("mlp.shared_expert_gate", 1, s.hidden);
  const ExpertNames names = blocks::expert_names(prefix.substr(0, prefix.size() - 1));
  for (HeadTensor& tensor : expert_tensors(s.layout, names, {s.experts, s.hidden, s.expert}))
    list.push_back(std::move(tensor));
}

}  // namespace

const std::array<format::NamePrefixes, 7> kPrefixes = {{{"mtp.", kOfMtp},
                                                        {"lm_head.", kOfLmHead},
                                                        {"patch_embed.", kOfVision},
                                                        {"pos_embed", kOfVision},
                                                        {"blocks.", kOfVision},
                                                        {"merger.", kOfVision},
                                                        {"", kOfTarget}}};

std::vector<HeadTensor> head_tensors(const HeadSizes& sizes) {
  std::vector<HeadTensor> list = {{"mtp.pre_fc_norm_embedding", HeadKind::kNorm, 1, sizes.hidden},
                                  {"mtp.pre_fc_norm_hidden", HeadKind::kNorm, 1, sizes.hidden},
                                  {"mtp.fc", HeadKind::kMatrix, sizes.hidden, 2 * sizes.hidden}};
  for (int i = 0; i < sizes.layers; ++i) add_layer(list, fmt::format("mtp.layers.{}.", i), sizes);
  list.push_back({"mtp.norm", HeadKind::kNorm, 1, sizes.hidden});
  return list;
}

}  // namespace ft::qwen3_5
