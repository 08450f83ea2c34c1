#include "models/glm4_moe/config.h"

#include <nlohmann/json.hpp>

#include "models/blocks/limits.h"
#include "program/instructions.h"

namespace ft::glm4_moe {
namespace {

using blocks::kMaxLayers, blocks::kMaxWidth;
using format::KeyReader;

constexpr blocks::Sizes kDefaults = {151552, 4096, 10944, 46, 96, 8, 0, 1e-5, 131072};

void read_moe(KeyReader& text, Config& c) {
  const char* count = text.find("n_routed_experts") == nullptr ? "num_local_experts" : "n_routed_experts";
  c.moe.experts = text.whole(count, 128, 1, kMaxExperts);
  c.moe.experts_per_token = text.whole("num_experts_per_tok", 8, 1, kMaxExperts);
  c.moe.expert_size = text.whole("moe_intermediate_size", 1408, 1, kMaxWidth);
  const int shared = text.whole("n_shared_experts", 1, 0, 64);
  c.moe.shared_size = shared * c.moe.expert_size;
  c.moe.norm_topk = text.flag("norm_topk_prob", true);
  c.moe.factor = text.real("routed_scaling_factor", 1, 1e-6, 1e6);
  c.dense_layers = text.whole("first_k_dense_replace", 1, 0, kMaxLayers);
  if (c.moe.experts_per_token > c.moe.experts) {
    text.fail("num_experts_per_tok", "at most n_routed_experts " + std::to_string(c.moe.experts),
              text.find("num_experts_per_tok"));
  }
  for (const char* key : {"n_group", "topk_group"}) {
    if (const int groups = text.whole(key, 1, 1, kMaxExperts); groups != 1)
      blocks::refuse(text, key, "1 (experts in one group)", std::to_string(groups));
  }
}

void read_head(KeyReader& text, Config& c) {
  const char* key = text.find("num_mtp_layers") != nullptr ? "num_mtp_layers" : "num_nextn_predict_layers";
  c.mtp_by_tensors = text.find(key) == nullptr;
  c.mtp_layers = text.whole(key, 1, 0, 1);
}

}  // namespace

Result<Config> Config::read(const format::ConfigFiles& files) {
  Config c;
  c.path = files.path;
  KeyReader text(*files.config, files.path);
  c.sizes = blocks::read_sizes(text, kDefaults);
  FT_TRY(text.status());  // the code below multiplies these
  c.rope = blocks::read_rope(text, {1e4, 0.5, c.sizes.head_dim, c.sizes.positions});
  for (const char* key : {"rope_interleaved", "rope_traditional"}) {
    if (text.flag(key, false))
      blocks::refuse(text, key, "false (pairs are halves of the rotated part)", "true");
  }
  c.qkv_bias = text.flag("attention_bias", false);
  c.qk_norm = text.flag("use_qk_norm", false);
  read_moe(text, c);
  read_head(text, c);
  FT_TRY(text.status());
  FT_ASSIGN(c.ends, blocks::read_ends(files, text, text, false, c.sizes.vocabulary, c));
  FT_ASSIGN(c.quantisation, format::QuantisationMap::read(*files.config, files.path));
  return c;
}

ModelFacts Config::facts() const {
  ModelFacts facts;
  facts.vocabulary = sizes.vocabulary, facts.width = sizes.hidden, facts.context = sizes.positions;
  facts.eos_ids = ends.eos_ids, facts.sampling = ends.sampling;
  facts.layers = facts.full_attention_layers = sizes.layers;
  facts.heads = sizes.heads, facts.kv_heads = sizes.kv_heads, facts.head_dim = sizes.head_dim;
  facts.intermediate = moe.shared_size;
  facts.experts = moe.experts;
  facts.experts_per_token = moe.experts_per_token, facts.expert_size = moe.expert_size;
  return facts;
}

}  // namespace ft::glm4_moe
