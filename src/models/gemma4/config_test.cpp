#include "models/gemma4/config.h"

#include <gtest/gtest.h>

#include "models/gemma4/family.h"

namespace ft::gemma4::config_test {
namespace {

Result<Config> parse(const std::string& config, const std::string& generation = "") {
  const auto files = format::ConfigFiles::parse(config, generation, "", "dir/config.json");
  if (!files.ok()) return files.error();
  return Config::read(*files, "gemma4");
}

/// A config whose text_config holds only `keys`.
Result<Config> with_text(const std::string& keys) {
  return parse(R"({"model_type":"gemma4","text_config":{)" + keys + "}}");
}

std::string message_of(const Result<Config>& result) { return result.ok() ? "ok" : result.error().message; }

TEST(Gemma4Config, AbsentKeysTakeTheDefaultsOfTheFamily) {
  const auto config = with_text("");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->hidden_size, 2304);
  EXPECT_EQ(config->window, 512);
  EXPECT_EQ(config->per_layer_width, 256);
  EXPECT_EQ(config->logit_softcap, 0);
  ASSERT_EQ(config->layers.size(), 30U);
  for (int i = 0; i < 30; ++i) {
    const LayerConfig& layer = config->layers[static_cast<std::size_t>(i)];
    EXPECT_EQ(layer.full, i % 6 == 5) << i;
    EXPECT_EQ(layer.head_dim, layer.full ? 512 : 256);
    EXPECT_EQ(layer.kv_heads, 4);
    EXPECT_FALSE(layer.k_is_v);
    EXPECT_EQ(layer.cache_source, -1);
  }
  EXPECT_EQ(config->sliding_rope.theta, 1e4);
  EXPECT_EQ(config->sliding_rope.proportion, 1);
  EXPECT_EQ(config->full_rope.theta, 1e6);
  EXPECT_EQ(config->full_rope.proportion, 0.25);
}

TEST(Gemma4Config, FullLayersHaveHeadsOfTheirOwnWhereKeysAreValues) {
  const auto config =
      with_text(R"("attention_k_eq_v":true,"num_global_key_value_heads":2,"num_hidden_layers":6)");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->layers[5].kv_heads, 2);
  EXPECT_TRUE(config->layers[5].k_is_v);
  EXPECT_EQ(config->layers[0].kv_heads, 4);
  EXPECT_FALSE(config->layers[0].k_is_v);
  const auto saved =
      with_text(R"("num_hidden_layers":6,"per_layer_config":{"5":{"head_dim":128,"num_key_value_heads":1}})");
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(saved->layers[5].head_dim, 128);
  EXPECT_EQ(saved->layers[5].kv_heads, 1);
}

TEST(Gemma4Config, SharedLayersReadTheLastOfTheirKindBeforeThem) {
  const auto config =
      with_text(R"("num_hidden_layers":35,"num_kv_shared_layers":20,"use_double_wide_mlp":true,
      "intermediate_size":6144,"layer_types":[)" +
                [] {
                  std::string types;
                  for (int i = 0; i < 35; ++i)
                    types += std::string(i > 0 ? "," : "") +
                             (i % 5 == 4 ? "\"full_attention\"" : "\"sliding_attention\"");
                  return types;
                }() +
                "]");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->layers[15].cache_source, 13) << "as in E2B";
  EXPECT_EQ(config->layers[19].cache_source, 14);
  EXPECT_EQ(config->layers[14].cache_source, -1);
  EXPECT_EQ(config->layers[14].intermediate, 6144);
  EXPECT_EQ(config->layers[15].intermediate, 12288);
  EXPECT_NE(
      message_of(with_text(R"("num_hidden_layers":6,"num_kv_shared_layers":3)")).find("num_kv_shared_layers"),
      std::string::npos)
      << "no full layer is left";
}

TEST(Gemma4Config, TheScaleOfTheEmbeddingIsRoundedAsTheModelComputes) {
  const auto bf16 = with_text(R"("hidden_size":5376)");
  const auto f32 = with_text(R"("hidden_size":5376,"dtype":"float32")");
  ASSERT_TRUE(bf16.ok() && f32.ok());
  EXPECT_EQ(bf16->embedding_scale(5376), 73.5F);
  EXPECT_EQ(bf16->embedding_scale(1536), 39.25F);
  EXPECT_NEAR(f32->embedding_scale(5376), 73.3212F, 1e-4F);
}

TEST(Gemma4Config, EndsAndSuppressedTokensComeFromAllFiles) {
  const auto config = parse(R"({"eos_token_id":[1,106],"text_config":{"eos_token_id":1}})",
                            R"({"eos_token_id":[1,106,50],"suppress_tokens":[7,9],"top_k":64})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->eos_ids, (std::vector<int>{1, 106, 50}));
  EXPECT_EQ(config->facts().suppressed_ids, (std::vector<int>{7, 9}));
  EXPECT_EQ(config->sampling.top_k, 64);
  EXPECT_NE(message_of(parse("{}", R"({"suppress_tokens":[-1]})")).find("suppress_tokens"),
            std::string::npos);
}

TEST(Gemma4Config, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_key_value_heads":3)", "num_key_value_heads: expected a divisor of num_attention_heads 8"},
      {R"("global_head_dim":33)", "global_head_dim: expected an even number"},
      {R"("head_dim":1)", "head_dim"},
      {R"("sliding_window":0)", "sliding_window"},
      {R"("layer_types":["mamba"],"num_hidden_layers":1)", "layer_types: expected only"},
      {R"("layer_types":[],"num_hidden_layers":1)", "layer_types: expected a list of 1 types"},
      {R"("vocab_size_per_layer_input":5)", "vocab_size_per_layer_input: expected at least vocab_size"},
      {R"("hidden_activation":"silu")", "expected gelu_pytorch_tanh, found 'silu'"},
      {R"("use_bidirectional_attention":"all")", "use_bidirectional_attention: expected vision"},
      {R"("enable_moe_block":true,"num_experts":128)", "top_k_experts: expected a number"},
      {R"("enable_moe_block":true,"num_experts":4,"top_k_experts":5,"moe_intermediate_size":8)",
       "top_k_experts: expected at most num_experts 4"},
      {R"("attention_bias":true)", "attention_bias: expected false"},
      {R"("rope_parameters":{"full_attention":{"rope_type":"yarn"}})",
       "rope_type: expected default or proportional"},
      {R"("rope_parameters":{"full_attention":3})", "full_attention"},
      {R"("per_layer_config":{"0":{"head_dim":"x"}})", "per_layer_config.0.head_dim"},
  };
  for (const auto& [keys, part] : cases) {
    const auto config = with_text(keys);
    ASSERT_FALSE(config.ok()) << keys;
    EXPECT_NE(message_of(config).find(part), std::string::npos) << message_of(config);
  }
}

}  // namespace
}  // namespace ft::gemma4::config_test
