#include "models/dflash/config.h"

#include <gtest/gtest.h>
#include <string>

namespace ft::dflash {
namespace {

ModelFacts target() {
  ModelFacts facts;
  facts.width = 320, facts.vocabulary = 8192, facts.layers = 16;
  return facts;
}

constexpr const char* kGood = R"({"architectures": ["DFlashDraftModel"], "model_type": "qwen3",
  "hidden_size": 320, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
  "head_dim": 128, "intermediate_size": 960, "vocab_size": 8192, "block_size": 16, "num_target_layers": 16,
  "layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "sliding_window": 64,
  "dflash_config": {"mask_token_id": 8183, "target_layer_ids": [1, 7, 13]}})";

Result<Config> read(const std::string& text) {
  const Result<format::ConfigFiles> files = format::ConfigFiles::parse(text, "", "", "DIR/config.json");
  EXPECT_TRUE(files.ok());
  return Config::read(*files, target());
}

/// The good config with a part replaced.
std::string with(const std::string& part, const std::string& other) {
  std::string text = kGood;
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

TEST(DflashConfig, SlidingLayersAreCausalAndFullOnesAreNotUnlessItSaysSo) {
  const Result<Config> config = read(kGood);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->captures.layers, (std::vector<int>{1, 7, 13}));
  EXPECT_EQ(config->block, 16);
  EXPECT_EQ(config->mask_token, 8183);
  EXPECT_EQ(config->windows, (std::vector<int>{64, 64, 0}));
  EXPECT_EQ(config->causal, (std::vector<char>{1, 1, 0}));
  const Result<Config> causal = read(with("\"block_size\"", "\"is_causal\": true, \"block_size\""));
  ASSERT_TRUE(causal.ok()) << causal.error().message;
  EXPECT_EQ(causal->causal, (std::vector<char>{1, 1, 1}));
}

TEST(DflashConfig, LayersOfTheTargetThatItDoesNotNameAreSpreadEvenly) {
  const Result<Config> config = read(with(R"(, "target_layer_ids": [1, 7, 13])", ""));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->captures.layers, (std::vector<int>{1, 7, 13}));
}

TEST(DflashConfig, WhatItCannotRunIsRefusedWithTheKey) {
  const std::pair<std::string, std::string> wrong[] = {
      {with("DFlashDraftModel", "DFlash2DraftModel"), "architectures"},
      {with("\"hidden_size\": 320", "\"hidden_size\": 256"), "hidden_size"},
      {with("\"vocab_size\": 8192", "\"vocab_size\": 100"), "vocab_size"},
      {with("\"num_target_layers\": 16", "\"num_target_layers\": 15"), "num_target_layers"},
      {with("8183", "8192"), "mask_token_id"},
      {with("8183", "null"), "mask_token_id"},
      {with("\"block_size\": 16", "\"block_size\": 257"), "block_size"},
      {with("[1, 7, 13]", "[1, \"x\"]"), "target_layer_ids"},
      {with("\"sliding_window\": 64", "\"sliding_window\": null"), "sliding_window"},
      {with("\"block_size\"", "\"is_causal\": false, \"block_size\""), "causal"},
      {with("\"block_size\"", "\"attention_bias\": true, \"block_size\""), "attention_bias"},
      {with("\"block_size\"", R"("rope_scaling": {"rope_type": "dynamic"}, "block_size")"), "rope_type"},
      {with("full_attention", "linear_attention"), "layer_types"},
  };
  for (const auto& [text, key] : wrong) {
    const Result<Config> config = read(text);
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
    EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace ft::dflash
