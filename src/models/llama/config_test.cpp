#include "models/llama/config.h"

#include <cmath>
#include <gtest/gtest.h>

namespace ft::llama::config_test {
namespace {

Result<Config> parse(const std::string& config, const std::string& type, const std::string& generation = "") {
  const auto files = format::ConfigFiles::parse(config, generation, "", "dir/config.json");
  if (!files.ok()) return files.error();
  return Config::read(*files, type);
}

Result<Config> of_type(const std::string& type, const std::string& keys = "") {
  return parse(R"({"model_type":")" + type + "\"" + (keys.empty() ? "" : ",") + keys + "}", type);
}

std::string message_of(const Result<Config>& result) { return result.ok() ? "ok" : result.error().message; }

/// Windows of the layers, and "n" for a layer whose positions turn nothing.
std::string layers_of(const Result<Config>& config) {
  if (!config.ok()) return config.error().message;
  std::string all;
  for (const LayerConfig& layer : config->layers)
    all += std::to_string(layer.window) + (layer.rotates ? "" : "n") + (layer.sparse ? "s " : " ");
  return all;
}

TEST(LlamaConfig, AbsentKeysTakeTheDefaultsOfTheModelType) {
  const auto config = of_type("llama");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->sizes.head_dim, 128);
  EXPECT_EQ(config->sizes.kv_heads, 32);
  EXPECT_EQ(config->rope.theta, 1e4);
  EXPECT_FALSE(config->qkv_bias || config->o_bias || config->mlp_bias || config->qk_norm);
  EXPECT_EQ(of_type("smollm3")->rope.theta, 2e6);
  EXPECT_EQ(of_type("qwen3")->sizes.head_dim, 128);
  EXPECT_EQ(of_type("qwen2", R"("num_attention_heads":16,"num_key_value_heads":16)")->sizes.head_dim, 256);
}

TEST(LlamaConfig, BiasesAndNormsBelongToTheModelType) {
  const auto llama = of_type("llama", R"("attention_bias":true,"mlp_bias":true)");
  EXPECT_TRUE(llama->qkv_bias && llama->o_bias && llama->mlp_bias);
  const auto qwen2 = of_type("qwen2");
  EXPECT_TRUE(qwen2->qkv_bias && !qwen2->o_bias);
  EXPECT_TRUE(of_type("qwen3")->qk_norm);
  EXPECT_NE(message_of(of_type("mistral", R"("attention_bias":true)")).find("attention_bias"),
            std::string::npos);
  EXPECT_NE(message_of(of_type("qwen2", R"("mlp_bias":true)")).find("mlp_bias"), std::string::npos);
}

TEST(LlamaConfig, WindowsBelongToTheModelType) {
  const std::string four = R"("num_hidden_layers":4)";
  EXPECT_EQ(layers_of(of_type("llama", four + R"(,"sliding_window":8)")), "0 0 0 0 ");
  EXPECT_EQ(layers_of(of_type("mistral", four)), "4096 4096 4096 4096 ") << "absent";
  EXPECT_EQ(layers_of(of_type("mistral", four + R"(,"sliding_window":null)")), "0 0 0 0 ");
  EXPECT_EQ(layers_of(of_type("mistral", four + R"(,"sliding_window":21)")), "21 21 21 21 ");
  const std::string window = four + R"(,"sliding_window":8,"max_window_layers":2)";
  EXPECT_EQ(layers_of(of_type("qwen2", window)), "0 0 0 0 ") << "use_sliding_window is absent";
  EXPECT_EQ(layers_of(of_type("qwen2", window + R"(,"use_sliding_window":true)")), "0 0 8 8 ");
  EXPECT_EQ(layers_of(of_type("qwen3", window + R"(,"use_sliding_window":true,"layer_types":
      ["sliding_attention","full_attention","full_attention","sliding_attention"])")),
            "8 0 0 8 ");
  EXPECT_EQ(layers_of(of_type("smollm3", four + R"(,"sliding_window":8,"use_sliding_window":true)")),
            "0 0 0 8n ");
  EXPECT_EQ(layers_of(of_type("smollm3", four + R"(,"no_rope_layers":[0,1,1,0])")), "0n 0 0 0n ");
}

TEST(LlamaConfig, ExpertsAreInTheLayersThatTheConfigNames) {
  const std::string moe = R"("num_hidden_layers":4,"num_experts":8,"num_experts_per_tok":2)";
  EXPECT_EQ(layers_of(of_type("qwen3_moe", moe)), "0s 0s 0s 0s ");
  EXPECT_EQ(layers_of(of_type("qwen3_moe", moe + R"(,"decoder_sparse_step":2,"mlp_only_layers":[3])")),
            "0 0s 0 0 ");
  EXPECT_FALSE(of_type("qwen3_moe", moe)->moe.norm_topk) << "absent";
  EXPECT_NE(message_of(of_type("qwen3_moe", R"("num_experts":4,"num_experts_per_tok":5)"))
                .find("num_experts_per_tok: expected at most"),
            std::string::npos);
}

TEST(LlamaConfig, AnInnerConfigOfMistral3NamesItsOwnType) {
  const auto inner = parse(R"({"model_type":"mistral3","text_config":{"model_type":"ministral3",
      "rope_parameters":{"rope_type":"yarn","rope_theta":1e6,"factor":16,"mscale":1,"mscale_all_dim":1,
      "original_max_position_embeddings":16384,"llama_4_scaling_beta":0.1}}})",
                           "mistral3");
  ASSERT_TRUE(inner.ok()) << inner.error().message;
  EXPECT_EQ(inner->rope.attention_factor, 1);
  EXPECT_EQ(inner->facts().context, 262144);
  Attention attend;
  blocks::set_rope(attend, inner->rope);
  ASSERT_EQ(attend.gains.size(), 16U);
  EXPECT_EQ(attend.gain_at(16383), 1);
  EXPECT_EQ(attend.gain_at(16384), static_cast<float>(1 + 0.1 * std::log(2.0)));
  EXPECT_EQ(attend.gain_at(262143), static_cast<float>(1 + 0.1 * std::log(16.0)));
  EXPECT_EQ(parse(R"({"model_type":"mistral3","text_config":{}})", "mistral3")->facts().context, 131072);
  EXPECT_NE(message_of(parse(R"({"model_type":"mistral3","text_config":{"model_type":"gpt2"}})", "mistral3"))
                .find("text_config.model_type: expected"),
            std::string::npos);
}

TEST(LlamaConfig, ADrafterOrARewardModelIsNotTakenForItsOriginal) {
  for (const char* name : {"LlamaForCausalLMEagle3", "DFlashDraftModel", "Qwen3ForSequenceClassification"}) {
    const std::string message =
        message_of(of_type("qwen3", R"("architectures":[")" + std::string(name) + "\"]"));
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
  EXPECT_TRUE(of_type("qwen3", R"("architectures":["Qwen3ForCausalLM"])").ok());
  EXPECT_NE(message_of(of_type("llama", R"("draft_vocab_size":32000)")).find("--drafter"), std::string::npos);
}

TEST(LlamaConfig, EndsAndSamplingComeFromAllFiles) {
  const auto config = parse(R"({"model_type":"llama","eos_token_id":2})", "llama",
                            R"({"eos_token_id":[9,8],"do_sample":true,"temperature":0.6,"top_p":0.9})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->facts().eos_ids, (std::vector<int>{9, 8, 2}));
  EXPECT_FLOAT_EQ(config->facts().sampling.temperature, 0.6F);
}

TEST(LlamaConfig, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_key_value_heads":3)", "num_key_value_heads: expected a divisor of num_attention_heads 32"},
      {R"("num_attention_heads":24)", "num_attention_heads: expected a divisor of hidden_size 4096"},
      {R"("head_dim":33)", "head_dim: expected an even number"},
      {R"("hidden_act":"gelu")", "hidden_act: expected silu, found 'gelu'"},
      {R"("rope_scaling":{"type":"dynamic","factor":2})",
       "rope_type: expected default, linear, llama3 or yarn"},
      {R"("rope_scaling":{"rope_type":"llama3"})", "factor: expected"},
      {R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4})",
       "high_freq_factor: expected"},
      {R"("partial_rotary_factor":0.5)", "partial_rotary_factor: expected 1"},
      {R"("rope_interleaved":true)", "rope_interleaved: expected false"},
      {R"("rope_traditional":true)", "rope_traditional: expected false"},
      {R"("rms_norm_eps":-1)", "rms_norm_eps"},
  };
  for (const auto& [keys, says] : cases) {
    const std::string message = message_of(of_type("llama", keys));
    EXPECT_NE(message.find(says), std::string::npos) << keys << ": " << message;
  }
}

}  // namespace
}  // namespace ft::llama::config_test
