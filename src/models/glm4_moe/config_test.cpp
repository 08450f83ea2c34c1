#include "models/glm4_moe/config.h"

#include <gtest/gtest.h>

namespace ft::glm4_moe::config_test {
namespace {

/// Every published file has head_dim; the defaults of the other sizes do not divide.
Result<Config> of(std::string keys) {
  if (keys.find("head_dim") == std::string::npos) keys += R"(,"head_dim":128)";
  const auto files = format::ConfigFiles::parse(
      R"({"model_type":"glm4_moe")" + (keys.starts_with(',') ? "" : std::string(",")) + keys + "}",
      R"({"eos_token_id":[151329,151336,151338]})", "", "dir/config.json");
  if (!files.ok()) return files.error();
  return Config::read(*files);
}

std::string message_of(const Result<Config>& result) { return result.ok() ? "ok" : result.error().message; }

TEST(Glm4MoeConfig, AbsentKeysTakeTheDefaultsOfTransformers) {
  const auto config = of("");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->sizes.vocabulary, 151552);
  EXPECT_EQ(config->sizes.heads, 96);
  EXPECT_EQ(config->moe.experts, 128);
  EXPECT_EQ(config->moe.shared_size, 1408);
  EXPECT_EQ(config->dense_layers, 1);
  EXPECT_FALSE(config->qkv_bias || config->qk_norm);
  EXPECT_TRUE(config->mtp_by_tensors);
  EXPECT_EQ(config->ends.eos_ids, (std::vector<int>{151329, 151336, 151338}));
}

TEST(Glm4MoeConfig, KeysOfThePublishedFilesAndOfTransformersAreRead) {
  const std::string published = R"("head_dim":128,"partial_rotary_factor":0.5,"rope_theta":1000000,
      "attention_bias":true,"use_qk_norm":true,"n_shared_experts":2,"moe_intermediate_size":1536,
      "routed_scaling_factor":2.5,"norm_topk_prob":false,"first_k_dense_replace":3)";
  const auto config = of(published + R"(,"num_nextn_predict_layers":1)");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->rope.rotary_dim, 64);
  EXPECT_EQ(config->rope.theta, 1e6);
  EXPECT_TRUE(config->qkv_bias && config->qk_norm);
  EXPECT_EQ(config->moe.shared_size, 3072);
  EXPECT_EQ(config->moe.factor, 2.5);
  EXPECT_FALSE(config->moe.norm_topk);
  EXPECT_FALSE(config->mtp_by_tensors);
  EXPECT_EQ(of(R"("num_mtp_layers":0)")->mtp_layers, 0);
  EXPECT_EQ(of(R"("head_dim":128,"rope_parameters":{"rope_type":"default","rope_theta":5e5,
      "partial_rotary_factor":0.25})")
                ->rope.rotary_dim,
            32);
}

TEST(Glm4MoeConfig, WhatDoesNotRunIsNamed) {
  EXPECT_NE(message_of(of(R"("n_group":8,"topk_group":4)")).find("n_group: expected 1"), std::string::npos);
  EXPECT_NE(message_of(of(R"("num_experts_per_tok":200)")).find("num_experts_per_tok"), std::string::npos);
  EXPECT_NE(message_of(of(R"("hidden_act":"gelu")")).find("hidden_act"), std::string::npos);
  EXPECT_NE(message_of(of(R"("num_nextn_predict_layers":3)")).find("num_nextn_predict_layers"),
            std::string::npos);
}

}  // namespace
}  // namespace ft::glm4_moe::config_test
