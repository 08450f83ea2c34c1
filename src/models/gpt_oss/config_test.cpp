#include "models/gpt_oss/config.h"

#include <gtest/gtest.h>

namespace ft::gpt_oss::config_test {
namespace {

Result<Config> with(const std::string& keys, const std::string& generation = "") {
  const std::string config = R"({"model_type":"gpt_oss")" + (keys.empty() ? "" : "," + keys) + "}";
  const auto files = format::ConfigFiles::parse(config, generation, "", "dir/config.json");
  if (!files.ok()) return files.error();
  return Config::read(*files);
}

std::string message_of(const Result<Config>& result) { return result.ok() ? "ok" : result.error().message; }

TEST(GptOssConfig, AbsentKeysTakeTheDefaultsOfTransformers) {
  const auto config = with("");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->sizes.hidden, 2880);
  EXPECT_EQ(config->sizes.head_dim, 64) << "not hidden_size / num_attention_heads";
  EXPECT_EQ(config->experts, 128);
  EXPECT_EQ(config->experts_per_token, 4);
  EXPECT_EQ(config->swiglu_limit, 7);
  EXPECT_EQ(config->swiglu_alpha, 1.702);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_EQ(config->rope.type, blocks::RopeType::kYarn);
  EXPECT_EQ(config->rope.theta, 150000);
  EXPECT_EQ(config->rope.original_positions, 4096);
  EXPECT_FALSE(config->rope.truncate);
  EXPECT_NEAR(config->rope.attention_factor, 1.3466, 1e-4);
}

TEST(GptOssConfig, EverySecondLayerSlidesUnlessTheConfigSaysOtherwise) {
  const std::string three = R"("num_hidden_layers":3)";
  EXPECT_EQ(with(three)->windows, (std::vector<int>{128, 0, 128}));
  EXPECT_EQ(with(three + R"(,"sliding_window":null)")->windows, (std::vector<int>{0, 0, 0}));
  const std::string listed =
      three + R"(,"sliding_window":9,"layer_types":["full_attention","sliding_attention","full_attention"])";
  EXPECT_EQ(with(listed)->windows, (std::vector<int>{0, 9, 0}));
  EXPECT_EQ(with(listed)->facts().full_attention_layers, 2);
  EXPECT_NE(message_of(with(three + R"(,"layer_types":["full_attention"])")).find("layer_types"),
            std::string::npos);
}

TEST(GptOssConfig, ExpertsAreNamedInTwoWays) {
  const auto config = with(R"("num_experts":8,"experts_per_token":3,"swiglu_limit":1.5,"swiglu_alpha":2)");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->experts, 8);
  EXPECT_EQ(config->experts_per_token, 3);
  EXPECT_EQ(config->swiglu_limit, 1.5);
  EXPECT_EQ(config->swiglu_alpha, 2);
  EXPECT_NE(message_of(with(R"("num_local_experts":2)")).find("num_experts_per_tok"), std::string::npos);
  EXPECT_NE(message_of(with(R"("swiglu_limit":0)")).find("swiglu_limit"), std::string::npos);
}

TEST(GptOssConfig, TheQuantisationOfPublishedFilesIsTaken) {
  const auto config = with(R"("quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["x"]})",
                           R"({"eos_token_id":[200002,199999,200012],"do_sample":true})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_FALSE(config->quantisation.global().has_value());
  EXPECT_EQ(config->ends.eos_ids, (std::vector<int>{200002, 199999, 200012})) << "<|end|> is not one";
  EXPECT_NE(message_of(with(R"("quantization_config":{"quant_method":"gptq"})")).find("quant_method"),
            std::string::npos);
}

}  // namespace
}  // namespace ft::gpt_oss::config_test
