#include "models/synthetic/model.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ft::synthetic_model_test {
namespace {

constexpr const char* kSmall = "synth:tiny?layers=4&vocabulary=512";

std::string with(const char* option) { return std::string(kSmall) + "&" + option; }

TEST(SynthModel, EveryWidthIsAModelWithAHead) {
  for (const char* shape : {"tiny", "tiny-experts", "tiny-next", "tiny-glm"}) {
    for (const char* bits : {"4", "8", "16", "mxfp4", "mxfp8", "nvfp4"}) {
      const std::string name = fmt::format("synth:{}?layers=4&vocabulary=512&bits={}", shape, bits);
      const Result<Model> model = make_synth_model(name, {});
      ASSERT_TRUE(model.ok()) << model.error().message;
      EXPECT_TRUE(model->mtp_head.usable()) << model->mtp_head.sentence;
      EXPECT_TRUE(model->mtp.has_value());
      EXPECT_EQ(model->facts.vocabulary, 512);
      EXPECT_EQ(model->facts.layers, 4);
      EXPECT_EQ(model->name, name);
    }
  }
}

TEST(SynthModel, EveryGemmaLoadsInEveryWidth) {
  for (const char* shape : {"gemma4-31b", "gemma4-26b-a4b", "gemma4-e4b", "gemma4-e2b"}) {
    for (const char* bits : {"4", "8", "mxfp4"}) {
      const std::string name = fmt::format("synth:{}?layers=7&vocabulary=512&bits={}", shape, bits);
      const Result<Model> model = make_synth_model(name, {});
      ASSERT_TRUE(model.ok()) << name << ": " << model.error().message;
      EXPECT_EQ(model->facts.family, "gemma4");
      EXPECT_EQ(model->facts.layers, 7);
      EXPECT_FALSE(model->mtp.has_value());
    }
  }
}

/// Of the target, in billions.
double parameters(const char* name) {
  std::int64_t count = 0;
  for (const SynthTensor& tensor : target_tensors(*find_shape(name))) count += tensor.rows * tensor.cols;
  return static_cast<double>(count) / 1e9;
}

TEST(SynthModel, PublishedMixturesHaveTheirParameters) {
  EXPECT_NEAR(parameters("qwen3-next-80b-a3b"), 79.7, 0.4);
  EXPECT_NEAR(parameters("glm4.5-air"), 106.8, 0.5);
  EXPECT_NEAR(parameters("glm4.5"), 352.8, 1.8);
  EXPECT_EQ(parameters("glm4.6"), parameters("glm4.7"));
  EXPECT_EQ(parameters("qwen3.8-27b"), parameters("qwen3.5-27b"));
}

TEST(SynthModel, PublishedGemmasHaveTheirParameters) {
  EXPECT_NEAR(parameters("gemma4-31b"), 30.7, 0.3);
  EXPECT_NEAR(parameters("gemma4-26b-a4b"), 25.2, 0.5);
  EXPECT_NEAR(parameters("gemma4-e4b"), 7.5, 0.5) << "with its table of per-layer embeddings";
  EXPECT_NEAR(parameters("gemma4-e2b"), 4.6, 0.6);
}

TEST(SynthModel, AMixtureOfExpertsCountsWhatOneTokenUses) {
  const Result<Model> model = make_synth_model("synth:tiny-experts?layers=4&vocabulary=512&bits=4", {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const ModelFacts& facts = model->facts;
  EXPECT_EQ(facts.experts, 32);
  EXPECT_EQ(facts.experts_per_token, 4);
  const std::int64_t expert = 3 * 64 * 256;
  EXPECT_EQ(facts.parameters - facts.active_parameters, 5 * 28 * expert) << "four layers and the head";
  const std::int64_t bytes = expert * 9 / 16;  // 4 bits, and 32 bits for 64 elements
  EXPECT_EQ(model->target.bytes_held() - model->target.bytes_per_step(), 4 * 28 * bytes);
}

TEST(SynthModel, TheSameNameIsTheSameModel) {
  const Result<Model> one = make_synth_model(with("seed=7"), {}), same = make_synth_model(with("seed=7"), {}),
                      other = make_synth_model(with("seed=8"), {});
  ASSERT_TRUE(one.ok() && same.ok() && other.ok());
  const auto tensors = one->checkpoint->tensors();
  ASSERT_EQ(tensors.size(), same->checkpoint->tensors().size());
  bool differs = false;
  for (const format::TensorView& tensor : tensors) {
    const format::TensorView* again = same->checkpoint->find(tensor.name);
    ASSERT_NE(again, nullptr);
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, again->bytes)) << tensor.name;
    differs = differs || !std::ranges::equal(tensor.bytes, other->checkpoint->find(tensor.name)->bytes);
  }
  EXPECT_TRUE(differs);
}

/// DFlash2 in the published shape, for a target of any width.
TEST(SynthDraft, IsADflash2DrafterOfItsTarget) {
  for (const char* bits : {"16", "8", "4", "mxfp4"}) {
    const std::string drafter = fmt::format("synth:dflash2?bits={}", bits);
    const Result<Model> model = make_synth_model(kSmall, {.drafters = {{"dflash", drafter}}});
    ASSERT_TRUE(model.ok()) << model.error().message;
    const DraftNetwork& network = model->drafters.front();
    EXPECT_EQ(network.design, "DFlash2");
    EXPECT_EQ(network.most_drafts, 7);
    EXPECT_EQ(network.captured_width, 4 * 320) << "one layer of it for each of the target's four";
  }
}

TEST(SynthDraft, RefusesOtherNamesAndKeys) {
  const auto refused = [](const char* kind, const char* name) {
    const Result<Model> model = make_synth_model(kSmall, {.drafters = {{kind, name}}});
    return model.ok() ? std::string("taken") : model.error().message;
  };
  EXPECT_NE(refused("dflash", "synth:dflash3").find("expected synth:dflash2?bits=4"), std::string::npos);
  EXPECT_NE(refused("dflash", "synth:dflash2?layers=2").find("the keys are bits, group, seed"),
            std::string::npos);
  EXPECT_NE(refused("dflash", "synth:dflash2?bits=3").find("bits: expected one of"), std::string::npos);
  EXPECT_NE(refused("dflash", "synth:dflash2?bits=4&group=128").find("does not divide"), std::string::npos);
  EXPECT_NE(refused("eagle3", "synth:dflash2").find("give a folder"), std::string::npos);
}

TEST(SynthModel, LayersHaveWeightsOfTheirOwn) {
  const Result<Model> model = make_synth_model(kSmall, {});
  ASSERT_TRUE(model.ok()) << model.error().message;
  const format::TensorView* first =
      model->checkpoint->find("language_model.model.layers.0.mlp.up_proj.weight");
  const format::TensorView* second =
      model->checkpoint->find("language_model.model.layers.1.mlp.up_proj.weight");
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_FALSE(std::ranges::equal(first->bytes, second->bytes));
}

TEST(SynthModel, OptionsChangeTheShape) {
  const Result<SynthOptions> options =
      read_synth_name("synth:qwen3.5-9b?bits=8&group=128&seed=3&mtp=0&tied=1&layers=2&vocabulary=1000");
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->bits, 8);
  EXPECT_EQ(options->group, 128);
  EXPECT_EQ(options->seed, 3U);
  EXPECT_FALSE(options->mtp);
  EXPECT_TRUE(options->shape.tied);
  EXPECT_EQ(options->shape.hidden, 4096);
  EXPECT_EQ(options->shape.layers, 2);
  EXPECT_EQ(options->shape.vocabulary, 1000);
  const Result<Model> model = make_synth_model(with("mtp=0"), {});
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE(model->mtp.has_value());
}

TEST(SynthModel, AVocabularyIsDraftedInPartFromTheSizeOnThatIsCalledLarge) {
  const auto named = [](int vocabulary) {
    return fmt::format("synth:tiny?layers=4&vocabulary={}", vocabulary);
  };
  const Result<Model> small = make_synth_model(named(kLargeVocabulary - 1), {.draft_bits = 0}),
                      large = make_synth_model(named(kLargeVocabulary), {.draft_bits = 0});
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(draft_vocabulary_text(*small), "all 65535 tokens");
  EXPECT_EQ(large->draft_vocabulary, kFrequentDrafts + kExtraDraftIds);
  EXPECT_EQ(draft_vocabulary_text(*large), "34816 of 65536 tokens at a time");
  const Result<Model> whole =
      make_synth_model(named(kLargeVocabulary), {.draft_vocab_size = 0, .draft_bits = 0});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(draft_vocabulary_text(*whole), "all 65536 tokens");
  const Result<Model> headless = make_synth_model(with("mtp=0"), {});
  ASSERT_TRUE(headless.ok());
  EXPECT_EQ(draft_vocabulary_text(*headless), "");
}

TEST(SynthModel, WhatIsWrongWithANameIsSaid) {
  const struct {
    const char *name, *words;
  } cases[] = {{"synth:qwen4", "qwen3.5-0.8b"},
               {"synth:", "qwen3.5-0.8b"},
               {"synth:tiny?bits=5", "bits: expected one of 4, 8, 16, mxfp4, mxfp8, nvfp4"},
               {"synth:gemma4-e2b?mtp=1", "mtp: the family has no MTP head"},
               {"synth:tiny?bits", "expected key=value"},
               {"synth:tiny?seed=x", "seed: expected a number"},
               {"synth:tiny?colour=1", "unknown key 'colour'; the keys are bits"},
               {"synth:tiny?group=128", "a group of 128 does not divide"}};
  for (const auto& [name, words] : cases) {
    const Result<SynthOptions> options = read_synth_name(name);
    ASSERT_FALSE(options.ok()) << name;
    EXPECT_EQ(options.error().code, Code::kInvalid) << name;
    EXPECT_NE(options.error().message.find(words), std::string::npos) << options.error().message;
  }
}

}  // namespace
}  // namespace ft::synthetic_model_test
