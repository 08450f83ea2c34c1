#include "models/model.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>

#include "base/log.h"
#include "tests/copied_model.h"

namespace ft::model_test {
namespace {

using test::CopiedModel;

class ModelTest : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  std::string message_of(CopiedModel& copy) {
    const Result<Model> model = load_model(copy.write());
    return model.ok() ? "ok" : model.error().message;
  }
  const Attention& first_attention(const Model& model) {
    for (const Instruction& instruction : model.target.instructions()) {
      if (const auto* attend = std::get_if<Attention>(&instruction)) return *attend;
    }
    ADD_FAILURE() << "no attention";
    static const Attention none;
    return none;
  }

  CopiedModel copy_{test::kOddModel};
};

TEST_F(ModelTest, DescribesWhatWasLoaded) {
  const Result<Model> model = load_model(std::string(test::kOddModel) + "/");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->name, "odd");
  EXPECT_EQ(model->facts.family, "qwen3_5");
  EXPECT_FALSE(model->facts.tied);
  EXPECT_EQ(model->mtp_head.file, "model-00002-of-00002.safetensors");
  for (const char* word : {"bf16", "f16", "f32"})
    EXPECT_NE(model->facts.quantisation.find(word), std::string::npos) << word;
  std::int64_t stored = 0;
  for (const auto& [name, tensor] : copy_.tensors) {
    std::int64_t size = 1;
    for (const std::int64_t side : tensor.shape) size *= side;
    stored += size;
  }
  EXPECT_EQ(model->facts.parameters, stored)
      << "every tensor of the file is a weight of the model, counted once";
}

TEST_F(ModelTest, TheShippedModelIsTiedQuantisedAndReadyToDraft) {
  const std::string folder = "assets/qwen3.5-tiny";
  if (!std::filesystem::exists(folder + "/model.safetensors")) GTEST_SKIP() << folder << " holds no weights";
  const Result<Model> model = load_model(folder);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->mtp_head.state, HeadReport::State::kReady) << model->mtp_head.sentence;
  EXPECT_EQ(model->mtp_head.file, "mtp.safetensors");
  EXPECT_TRUE(model->facts.tied);
  EXPECT_EQ(model->facts.parameters, 36361568) << "tower included";
  EXPECT_NE(model->facts.quantisation.find("4-bit group 32"), std::string::npos) << model->facts.quantisation;
}

TEST_F(ModelTest, AHeadIsTiedWhereTheFileHasNone) {
  copy_.tensors.erase("lm_head.weight");
  copy_.edit("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  const Result<Model> model = load_model(copy_.write());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_TRUE(model->facts.tied);
}

TEST_F(ModelTest, AHeadThatTheConfigPromisesAndNoFileHoldsIsMissed) {
  copy_.tensors.erase("lm_head.weight");
  const Result<Model> model = load_model(copy_.write());
  ASSERT_FALSE(model.ok()) << "the embedding was taken for a head that was lost";
  EXPECT_EQ(model.error().code, Code::kNotFound);
  for (const char* words : {"lm_head.weight", "tie_word_embeddings", "download it again"}) {
    EXPECT_NE(model.error().message.find(words), std::string::npos) << model.error().message;
  }
}

const Capture* tap_of(const Program& program) {
  const Capture* found = nullptr;
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* capture = std::get_if<Capture>(&instruction)) found = capture;
  }
  return found;
}

/// The row that the logits read: the one after the last norm.
int normed_row(const Program& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* logits = std::get_if<Logits>(&instruction)) return logits->in.id;
  }
  return -1;
}

TEST_F(ModelTest, TheHeadIsFedFromBeforeTheNormIfItsContractSaysSo) {
  const Result<Model> usual = load_model(copy_.write());
  ASSERT_TRUE(usual.ok() && usual->mtp.has_value());
  EXPECT_EQ(tap_of(usual->target)->in.id, normed_row(usual->target));
  EXPECT_EQ(tap_of(*usual->mtp)->in.id, normed_row(*usual->mtp));
  copy_.edit(
      "\"model_type\": \"qwen3_5\"",
      "\"mtplx_mtp_contract\": {\"base_hidden_variant\": \"pre_norm\", \"hidden_variant\": \"pre_norm\"}, "
      "\"model_type\": \"qwen3_5\"");
  const Result<Model> early = load_model(copy_.write());
  ASSERT_TRUE(early.ok()) << early.error().message;
  EXPECT_NE(tap_of(early->target)->in.id, normed_row(early->target));
  EXPECT_NE(tap_of(*early->mtp)->in.id, normed_row(*early->mtp));
}

TEST_F(ModelTest, ADenseCheckpointWithAConfigOfExpertsNamesWhatIsMissing) {
  copy_.edit("\"model_type\": \"qwen3_5_text\"", "\"model_type\": \"qwen3_5_moe_text\", \"num_experts\": 24");
  copy_.edit("\"model_type\": \"qwen3_5\"", "\"model_type\": \"qwen3_5_moe\"");
  const Result<Model> model = load_model(copy_.write());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, Code::kNotFound);
  EXPECT_NE(model.error().message.find("layers.0.mlp.gate.weight"), std::string::npos)
      << model.error().message;
}

TEST_F(ModelTest, AttentionBiasIsRefusedNotIgnored) {
  copy_.edit("\"attention_bias\": false", "\"attention_bias\": true");
  EXPECT_NE(message_of(copy_).find("attention_bias"), std::string::npos);
}

TEST_F(ModelTest, AWrongTensorOfTheTrunkIsNamedWithItsShapes) {
  CopiedModel::Tensor& up = copy_.tensors.at("model.language_model.layers.1.mlp.up_proj.weight");
  std::swap(up.shape[0], up.shape[1]);
  const std::string message = message_of(copy_);
  for (const char* words : {"model.safetensors", "layers.1.mlp.up_proj.weight", "[160,96]", "[96,160]"}) {
    EXPECT_NE(message.find(words), std::string::npos) << words << " in: " << message;
  }
}

TEST_F(ModelTest, AMissingTensorOfTheTrunkIsNamed) {
  copy_.tensors.erase("model.language_model.layers.4.linear_attn.A_log");
  EXPECT_NE(message_of(copy_).find("layers.4.linear_attn.A_log"), std::string::npos);
}

const Logits& logits_of(const Program& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* logits = std::get_if<Logits>(&instruction)) return *logits;
  }
  throw std::logic_error("a program without logits");
}

TEST_F(ModelTest, AReducedHeadDraftsFrequentIdsEndTokensAndWordsOfTheText) {
  LoadOptions options;
  options.draft_vocab_size = 100;
  const Result<Model> model = load_model(test::kOddModel, options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const int rest = model->facts.vocabulary - 100;
  ASSERT_LT(rest, kExtraDraftIds) << "then the extra columns hold all of the rest";
  const Logits& drafts = logits_of(*model->mtp);
  EXPECT_EQ(drafts.ids.size(), 100U);
  EXPECT_EQ(drafts.ids.back(), 99);
  EXPECT_EQ(drafts.extra.count, rest);
  EXPECT_EQ(model->draft_vocabulary, model->facts.vocabulary);
  std::set<std::int32_t> ends;
  for (const int end : model->facts.eos_ids) {
    if (end >= 100) ends.insert(end);
  }
  EXPECT_EQ(drafts.extra.always, std::vector<std::int32_t>(ends.begin(), ends.end()));
  EXPECT_TRUE(logits_of(model->target).ids.empty()) << "the answer's head is whole";
}

TEST_F(ModelTest, TheWholeOfASmallVocabularyIsDrafted) {  // the default, because a small LM head costs little
  for (const int asked : {-1, 0, 1 << 24}) {
    LoadOptions options;
    options.draft_vocab_size = asked;
    const Result<Model> model = load_model(test::kOddModel, options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    ASSERT_LT(model->facts.vocabulary, kLargeVocabulary);
    EXPECT_TRUE(logits_of(*model->mtp).ids.empty()) << asked;
    EXPECT_EQ(model->draft_vocabulary, model->facts.vocabulary);
  }
}

TEST_F(ModelTest, TheHeadsMatricesAreReadInAboutAsManyBitsAsTheTrunks) {
  const Result<Model> four = load_model("assets/qwen3.5-tiny");  // 4 bits, the embedding 8, mtp.fc bf16
  ASSERT_TRUE(four.ok()) << four.error().message;
  EXPECT_EQ(four->mtp->max_weight_bits(), 4);
  EXPECT_EQ(four->draft_bits, 4);
  EXPECT_EQ(four->target.max_weight_bits(), 0) << "the answer's matrices stay as stored";
  EXPECT_EQ(draft_vocabulary_text(*four), "all 8192 tokens, in 4 bits");
  const Result<Model> eight = load_model("assets/qwen3.5-tiny", {.draft_bits = 8});
  ASSERT_TRUE(eight.ok()) << eight.error().message;
  EXPECT_EQ(eight->draft_bits, 8);
  const Result<Model> odd = load_model(test::kOddModel);  // bf16
  ASSERT_TRUE(odd.ok()) << odd.error().message;
  EXPECT_EQ(odd->mtp->max_weight_bits(), 8);
  EXPECT_EQ(odd->draft_bits, 8);
  const Result<Model> stored = load_model("assets/qwen3.5-tiny", {.draft_bits = 0});
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  EXPECT_EQ(stored->mtp->max_weight_bits() + stored->draft_bits, 0);
  EXPECT_EQ(draft_vocabulary_text(*stored), "all 8192 tokens");
}

// Values of transformers 5.17 (Qwen3_5TextRotaryEmbedding.inv_freq and attention_scaling), head_dim 32 of
// which 16 are rotated, for the rope_parameters of each test.
void expect_frequencies(const Attention& attend, const std::vector<float>& expected, float scale) {
  EXPECT_EQ(attend.rotary, 16);
  ASSERT_EQ(attend.inverse_frequencies.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(attend.inverse_frequencies[i] / expected[i], 1, 2e-6) << i;
  }
  EXPECT_NEAR(attend.rotary_scale, scale, 1e-6);
}

TEST_F(ModelTest, PlainRotaryFrequenciesAreThoseOfTransformers) {
  expect_frequencies(first_attention(*load_model(test::kOddModel)),
                     {1, 0.316227764F, 0.100000001F, 0.0316227786F, 0.00999999978F, 0.00316227786F,
                      0.00100000005F, 0.000316227786F},
                     1);
}

TEST_F(ModelTest, YarnFrequenciesAreThoseOfTransformers) {
  copy_.edit("\"rope_type\": \"default\"",
             "\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 512");
  const Result<Model> model = load_model(copy_.write());
  ASSERT_TRUE(model.ok()) << model.error().message;
  expect_frequencies(first_attention(*model),
                     {1, 0.25693506F, 0.0625F, 0.0138349654F, 0.00249999994F, 0.000790569466F,
                      0.000250000012F, 7.90569466e-05F},
                     1.138629436F);
}

TEST_F(ModelTest, YarnWithItsOwnCorrectionRangeIsThatOfTransformers) {
  copy_.edit("\"rope_type\": \"default\"",
             "\"rope_type\": \"yarn\", \"factor\": 8.0, \"original_max_position_embeddings\": 32768, "
             "\"beta_fast\": 16.0, "
             "\"beta_slow\": 2.0, \"truncate\": false, \"attention_factor\": 1.25");
  copy_.edit("\"rope_theta\": 10000", "\"rope_theta\": 10000000");
  const Result<Model> model = load_model(copy_.write());
  ASSERT_TRUE(model.ok()) << model.error().message;
  expect_frequencies(first_attention(*model),
                     {1, 0.133352146F, 0.0177827943F, 0.00211438606F, 3.95284733e-05F, 5.27120665e-06F,
                      7.02926684e-07F, 9.37367801e-08F},
                     1.25F);
}

}  // namespace
}  // namespace ft::model_test
