#include <gtest/gtest.h>

#include "format/model_fixture.h"
#include "models/family.h"
#include "models/model.h"
#include "models/weight_source.h"

namespace ft::registry_test {
namespace {

using format::floats;
using format::Piece;
using format::safetensors_file;
using format::TemporaryFolder;

Result<FamilyMatch> parse(const std::string& config) {
  const auto files = format::ConfigFiles::parse(config, "", "", "dir/config.json");
  return files.ok() ? read_config(*files) : Result<FamilyMatch>(files.error());
}

std::string message_of(const Result<FamilyMatch>& match) { return match.ok() ? "ok" : match.error().message; }

TEST(Registry, AnUnknownFamilyIsRefusedWithTheListOfKnownOnes) {
  const auto match = parse(R"({"model_type":"gpt2"})");
  ASSERT_FALSE(match.ok());
  EXPECT_EQ(match.error().code, Code::kUnsupported);
  EXPECT_NE(match.error().message.find(
                "qwen3_5, qwen3_5_text, qwen3_5_moe, qwen3_5_moe_text, gemma4, gemma4_text, llama, "),
            std::string::npos)
      << match.error().message;
  EXPECT_NE(match.error().message.find("found 'gpt2'"), std::string::npos) << match.error().message;
  EXPECT_EQ(parse("{}").error().code, Code::kUnsupported);
  EXPECT_NE(message_of(parse(R"({"model_type":5})")).find("dir/config.json: model_type: expected a string"),
            std::string::npos);
}

TEST(Registry, EveryModelTypeOfEveryFamilyIsChosenByItsName) {
  for (const Family* family : families()) {
    for (const std::string_view type : family->model_types) {
      const auto match = parse(R"({"model_type":")" + std::string(type) + "\"}");
      if (match.ok()) {
        EXPECT_EQ(match->family, family);
      } else {
        EXPECT_EQ(message_of(match).find("qwen3_5, qwen3_5_text"), std::string::npos) << message_of(match);
      }
    }
  }
}

// Norms near zero in files of Hugging Face's form: evidence that would add 1 to the norms of a Qwen model.
std::string raw_looking_weights() {
  return safetensors_file(
      {Piece{"model.language_model.layers.0.input_layernorm.weight", "F32", "[2]", floats({0.1F, 0.1F})},
       Piece{"model.language_model.layers.0.linear_attn.conv1d.weight", "F32", "[2,1,4]",
             floats(std::vector<float>(8, 0))}},
      R"({"format":"pt"})");
}

TEST(Registry, ACheckpointOfAnotherFamilyIsRefusedByItsArchitectureBeforeItsWeightsAreRead) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"architectures":["Gemma5ForConditionalGeneration"],"model_type":"gemma5",
      "text_config":{"model_type":"gemma5_text","hidden_size":2}})");
  for (const std::string& weights : {raw_looking_weights(), std::string("not a safetensors file")}) {
    folder.write("model.safetensors", weights);
    const Result<Model> model = load_model(folder.path());
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, Code::kUnsupported);
    for (const char* part : {"config.json", "qwen3_5, qwen3_5_text", "'gemma5'",
                             "'Gemma5ForConditionalGeneration'", "use a model of a supported family"}) {
      EXPECT_NE(model.error().message.find(part), std::string::npos)
          << part << " in " << model.error().message;
    }
  }
}

TEST(Registry, ARefusalNamesThePartsThatAreNotImplemented) {
  const struct {
    const char* config;
    const char* parts;
  } cases[] = {
      {R"({"model_type":"deepseek_v3","kv_lora_rank":512,"topk_group":4})",
       "not implemented: latent attention (MLA), routing by groups of experts;"},
      {R"({"model_type":"glm4_moe_lite","kv_lora_rank":512,"topk_group":1})",
       "not implemented: latent attention (MLA);"},
      {R"({"model_type":"qwen4_exp","text_config":{"indexer_budget":2048,"hc_count":4,"ngram_size":3}})",
       "not implemented: sparse attention, hyper-connections, a table of n-grams;"},
      {R"({"model_type":"other","kv_lora_rank":null,"text_config":7})", "'other'; use a model"},
  };
  for (const auto& [config, parts] : cases) {
    const TemporaryFolder folder;
    folder.write("config.json", config);
    const Result<Model> model = load_model(folder.path());
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.error().message.find(parts), std::string::npos) << model.error().message;
  }
}

struct PlainConfig final : FamilyConfig {
  ModelFacts facts() const override { return {}; }
};

TEST(Registry, AFamilyWithoutANormConventionTakesNormsAsTheyAreStored) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", raw_looking_weights());
  const auto checkpoint = format::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  Family plain = *families()[0];
  const auto offset_and_warnings = [&](const Family& family) {
    auto source = WeightSource::open(family, *checkpoint, PlainConfig());
    EXPECT_TRUE(source.ok());
    const Weight norm = source->norm("layers.0.input_layernorm", 2);
    EXPECT_TRUE(source->status().ok());
    return std::pair(norm.offset, source->index().warnings().size());
  };
  plain.norm_offset = nullptr;
  EXPECT_EQ(offset_and_warnings(plain), (std::pair<float, std::size_t>(0.0F, 0)));
  plain.norm_offset = [](format::WeightIndex& /*index*/, const FamilyConfig& /*config*/) {
    return Result<float>(1.0F);
  };
  EXPECT_EQ(offset_and_warnings(plain), (std::pair<float, std::size_t>(1.0F, 0))) << "what the family says";
}

}  // namespace
}  // namespace ft::registry_test
