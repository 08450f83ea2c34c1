#include "models/eagle3/config.h"

#include <gtest/gtest.h>
#include <string>

namespace ft::eagle3::config_test {
namespace {

ModelFacts target() {
  ModelFacts facts;
  facts.width = 320, facts.vocabulary = 8192, facts.layers = 12;
  return facts;
}

constexpr const char* kSpeculators = R"({"speculators_model_type": "eagle3", "draft_vocab_size": 4096,
  "eagle_aux_hidden_state_layer_ids": [2, 6, 9], "norm_before_residual": true, "target_hidden_size": null,
  "transformer_layer_config": {"model_type": "llama", "hidden_size": 320, "intermediate_size": 1152,
  "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "hidden_act": "silu",
  "vocab_size": 8192,
  "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}}})";

Result<Config> read(const std::string& text) {
  const Result<format::ConfigFiles> files = format::ConfigFiles::parse(text, "", "", "DIR/config.json");
  EXPECT_TRUE(files.ok());
  return Config::read(*files, target());
}

/// The good config with a part replaced.
std::string with(const std::string& part, const std::string& other) {
  std::string text = kSpeculators;
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

TEST(Eagle3Config, ABoundaryIsTheOutputOfTheLayerBeforeIt) {
  const Result<Config> config = read(kSpeculators);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->captures.layers, (std::vector<int>{1, 5, 8}));
  EXPECT_EQ(config->draft_vocabulary, 4096);
  EXPECT_EQ(config->target_hidden, 320);
  EXPECT_EQ(config->rope.theta, 20000);
  EXPECT_EQ(config->rope.rotary_dim, 64);
  EXPECT_TRUE(config->norm_before_residual);
  EXPECT_FALSE(config->norm_output);
  const Result<Config> usual = read(with(R"("eagle_aux_hidden_state_layer_ids": [2, 6, 9],)", ""));
  ASSERT_TRUE(usual.ok()) << usual.error().message;
  EXPECT_EQ(usual->captures.layers, (std::vector<int>{1, 5, 8})) << "2, half, 3 from the end";
}

TEST(Eagle3Config, AListThatBeginsWithOneHasLayersAndAnyOtherHasBoundaries) {
  const struct {
    const char* list;
    std::vector<int> layers;
  } cases[] = {{"[1, 5, 8]", {1, 5, 8}}, {"[1]", {1}},        {"[2, 6, 9]", {1, 5, 8}},
               {"[3, 1, 9]", {2, 0, 8}}, {"[0, 6]", {-1, 5}}, {"[9]", {8}}};
  for (const auto& [list, layers] : cases) {
    const Result<Config> config = read(with("[2, 6, 9]", list));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->captures.layers, layers) << list;
  }
}

TEST(Eagle3Config, TheOriginalLayoutHasItsSizesAtTheTop) {
  const Result<Config> config = read(R"({"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 320,
    "intermediate_size": 1152, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 8192,
    "draft_vocab_size": 1000, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 5, 10]}})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->captures.layers, (std::vector<int>{1, 5, 10})) << "a list that begins with 1 has layers";
  EXPECT_EQ(config->head_dim, 40);
  EXPECT_EQ(config->draft_vocabulary, 1000);
  EXPECT_FALSE(config->norm_before_residual);
}

TEST(Eagle3Config, WhatIsWrongIsNamed) {
  struct {
    const char *part, *other, *says;
  } const cases[] = {
      {R"("vocab_size": 8192)", R"("vocab_size": 9000)", "vocab_size is 9000, but the target's is 8192"},
      {R"("target_hidden_size": null)", R"("target_hidden_size": 640)", "hidden rows is 640"},
      {R"([2, 6, 9])", R"([2, "x"])", "eagle_aux_hidden_state_layer_ids"},
      {R"("draft_vocab_size": 4096)", R"("draft_vocab_size": 9000)", "draft_vocab_size: expected at most"},
      {R"("rope_type": "default")", R"("rope_type": "dynamic")",
       "rope_type: expected default, linear, llama3 or yarn, found 'dynamic'"},
      {R"("hidden_act": "silu")", R"("hidden_act": "gelu")", "hidden_act: expected silu"},
      {R"("hidden_act": "silu")", R"("attention_bias": true)", "attention_bias: true"},
      {R"("num_key_value_heads": 4)", R"("num_key_value_heads": 3)", "a divisor of num_attention_heads 8"},
      {R"("intermediate_size": 1152,)", "", "intermediate_size: expected a number"},
      {R"("norm_before_residual": true)", R"("norm_before_fc": true, "fc_norm": true)",
       "fc_norm: expected false"},
      {R"("speculators_model_type": "eagle3")", R"("speculators_model_type": "dflash")", "expected eagle3"},
  };
  for (const auto& [part, other, says] : cases) {
    const Result<Config> config = read(with(part, other));
    ASSERT_FALSE(config.ok()) << other;
    EXPECT_NE(config.error().message.find(says), std::string::npos) << config.error().message;
  }
}

}  // namespace
}  // namespace ft::eagle3::config_test
