#include "models/dflash/config.h"

#include <array>
#include <gtest/gtest.h>
#include <string>

namespace ft::dflash::config_test {
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
      {with("DFlashDraftModel", "MedusaModel"), "architectures"},
      {with("\"architectures\"", "\"speculators_model_type\": \"peagle\", \"architectures\""),
       "speculators_model_type"},
      {with("\"hidden_size\": 320", "\"hidden_size\": 256"), "hidden_size"},
      {with("\"vocab_size\": 8192", "\"vocab_size\": 100"), "vocab_size"},
      {with("\"num_target_layers\": 16", "\"num_target_layers\": 15"), "num_target_layers"},
      {with("8183", "8192"), "mask_token_id"},
      {with("8183", "null"), "mask_token_id"},
      {with("\"block_size\": 16", "\"block_size\": 257"), "block_size"},
      {with("[1, 7, 13]", "[1, \"x\"]"), "target_layer_ids"},
      {with("\"sliding_window\": 64", "\"sliding_window\": null"), "sliding_window"},
      {with("\"sliding_window\": 64", "\"sliding_window\": 15, \"is_causal\": false"), "sliding_window"},
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

constexpr const char* kSelector = R"("conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256,
  "selector_top_k": 16, "mask_token_id")";

std::string dflash2() {
  std::string text = with("DFlashDraftModel", "DFlash2DraftModel");
  const std::string mask = "\"mask_token_id\"";
  return text.replace(text.find(mask), mask.size(), kSelector);
}

/// The text with a part replaced.
std::string changed(std::string text, const std::string& part, const std::string& other) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

TEST(DflashConfig, ReadsDflash2) {
  const Result<Config> config =
      read(changed(dflash2(), "\"block_size\": 16", "\"block_size\": 8, \"is_causal\": false"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->design, Design::kDflash2);
  EXPECT_EQ(config->most_drafts(), 7);
  EXPECT_EQ(config->taps, 2);
  EXPECT_EQ(config->groups, 20);
  EXPECT_EQ(config->rank, 256);
  EXPECT_EQ(config->candidates, 16);
  EXPECT_EQ(config->windows, (std::vector<int>{64, 64, 0}));
  EXPECT_EQ(config->causal, (std::vector<char>{0, 0, 0}));
}

TEST(DflashConfig, RefusesImpossibleSelectorsWithTheKey) {
  for (const auto& [part, other, key] : {
           std::array{"\"conv_kernel_size\": 2", "\"conv_kernel_size\": 17", "conv_kernel_size"},
           std::array{"\"conv_kernel_size\": 2, ", "", "conv_kernel_size"},
           std::array{"\"conv_group_size\": 16", "\"conv_group_size\": 48", "conv_group_size"},
           std::array{"\"conv_group_size\": 16, ", "", "conv_group_size"},
           std::array{"\"selector_rank\": 256", "\"selector_rank\": 0", "selector_rank"},
           std::array{"\"selector_top_k\": 16, ", "", "selector_top_k"},
           std::array{"\"selector_top_k\": 16", "\"selector_top_k\": 65", "selector_top_k"},
           std::array{"\"vocab_size\": 8192", "\"vocab_size\": 8192, \"draft_vocab_size\": 4096",
                      "draft_vocab_size"},
       }) {
    const Result<Config> config = read(changed(dflash2(), part, other));
    ASSERT_FALSE(config.ok()) << other;
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
  }
}

std::string speculators(const std::string& type, const std::string& more) {
  return R"({"architectures": ["DFlash2DraftModel"], "speculators_model_type": ")" + type +
         R"(", "mask_token_id": 8183, "aux_hidden_state_layer_ids": [2, 8, 14], "block_size": 8, )" + more +
         R"("transformer_layer_config": {"model_type": "qwen3", "hidden_size": 320, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 960,
  "vocab_size": 8192, "sliding_window": 64,
  "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}})";
}

TEST(DflashConfig, SpeculatorsCountsBoundariesAndHasDefaults) {
  const Result<Config> config = read(speculators("dflash2", ""));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->design, Design::kDflash2);
  EXPECT_EQ(config->captures.layers, (std::vector<int>{1, 7, 13}));
  EXPECT_EQ(config->causal, (std::vector<char>{0, 0, 0})) << "sliding_window_non_causal is true by default";
  EXPECT_EQ(config->taps, 2);
  EXPECT_EQ(config->candidates, 16);
  const Result<Config> first = read(speculators("dflash", ""));
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->design, Design::kDflash);
  EXPECT_EQ(first->causal, (std::vector<char>{1, 1, 0})) << "but not in DFlash";
  EXPECT_EQ(first->most_drafts(), 7);
}

TEST(DflashConfig, DsparkDraftsFromTheAnchor) {
  const Result<Config> config = read(speculators("dspark", "\"markov_rank\": 8, "));
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->design, Design::kDspark);
  EXPECT_TRUE(config->from_anchor);
  EXPECT_EQ(config->most_drafts(), 8);
  EXPECT_EQ(config->rank, 8);
  const Result<Config> filled = read(speculators("dspark", "\"sample_from_anchor\": false, "));
  ASSERT_TRUE(filled.ok()) << filled.error().message;
  EXPECT_EQ(filled->most_drafts(), 7);
  const Result<Config> first = read(with("DFlashDraftModel", "DSparkDraftModel"));
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_TRUE(first->from_anchor);
  EXPECT_EQ(first->most_drafts(), 16);
}

TEST(DflashConfig, RefusesTheOtherHeadsOfDsparkByName) {
  for (const auto& [more, name] : {std::pair{"\"markov_head_type\": \"rnn\", ", "'rnn'"},
                                   std::pair{"\"markov_head_type\": \"gated\", ", "'gated'"},
                                   std::pair{"\"projector_type\": \"domino\", ", "'domino'"}}) {
    const Result<Config> config = read(speculators("dspark", more));
    ASSERT_FALSE(config.ok()) << more;
    EXPECT_NE(config.error().message.find(name), std::string::npos) << config.error().message;
  }
  const Result<Config> native = read(changed(with("DFlashDraftModel", "DSparkDraftModel"),
                                             "\"model_type\": \"qwen3\"", "\"model_type\": \"deepseek_v4\""));
  ASSERT_FALSE(native.ok());
  EXPECT_NE(native.error().message.find("deepseek_v4"), std::string::npos) << native.error().message;
}

}  // namespace
}  // namespace ft::dflash::config_test
