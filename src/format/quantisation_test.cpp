#include "format/quantisation.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft::format::quantisation_test {
namespace {

Result<QuantisationMap> read(const char* text) {
  return QuantisationMap::read(nlohmann::json::parse(text), "config.json");
}

TEST(Quantisation, AbsentKeysGiveAnEmptyMap) {
  auto map = read(R"({"model_type":"qwen3_5"})");
  ASSERT_TRUE(map.ok());
  EXPECT_FALSE(map->global().has_value());
  EXPECT_FALSE(map->lookup("lm_head").has_value());
}

TEST(Quantisation, ReadsBothKeysAtBothLevels) {
  for (const char* text :
       {R"({"quantization":{"bits":5,"group_size":32}})",
        R"({"quantization_config":{"bits":5,"group_size":32}})",
        R"({"text_config":{"quantization":{"bits":5,"group_size":32}}})",
        R"({"text_config":{"quantization_config":{"bits":5,"group_size":32,"mode":"affine"}}})"}) {
    auto map = read(text);
    ASSERT_TRUE(map.ok());
    EXPECT_EQ(map->global(), (Quantisation{QuantMode::kAffine, 5, 32})) << text;
  }
}

TEST(Quantisation, AnOverrideTakesTheModesDefaultsAndNeverTheGlobalValues) {
  auto map = read(R"({"quantization":{"bits":8,"group_size":32,"mode":"mxfp8",
    "language_model.model.layers.0.mlp.gate":{"group_size":128},
    "language_model.model.layers.1.mlp.gate":{"bits":8},
    "language_model.model.layers.2.mlp.gate":{"mode":"mxfp4"},
    "language_model.model.layers.3.mlp.gate":false,
    "language_model.model.layers.4.mlp.gate":true}})");
  ASSERT_TRUE(map.ok()) << map.error().message;
  EXPECT_EQ(map->lookup("layers.0.mlp.gate")->q, (Quantisation{QuantMode::kAffine, 4, 128}));
  EXPECT_EQ(map->lookup("layers.1.mlp.gate")->q, (Quantisation{QuantMode::kAffine, 8, 64}));
  EXPECT_EQ(map->lookup("layers.2.mlp.gate")->q, (Quantisation{QuantMode::kMxfp4, 4, 32}));
  EXPECT_FALSE(map->lookup("layers.3.mlp.gate")->quantised);
  EXPECT_TRUE(map->lookup("layers.4.mlp.gate")->quantised);
  EXPECT_EQ(map->lookup("layers.4.mlp.gate")->q, (Quantisation{QuantMode::kMxfp8, 8, 32}));
  EXPECT_EQ(map->overrides(), 5U);
}

TEST(Quantisation, EverySpellingOfAPathIsOneModule) {
  for (const char* path :
       {"layers.0.mlp.gate", "model.layers.0.mlp.gate", "language_model.model.layers.0.mlp.gate",
        "model.language_model.layers.0.mlp.gate", "language_model.layers.0.mlp.gate.weight"}) {
    EXPECT_EQ(normalised_module(path), "layers.0.mlp.gate");
  }
  EXPECT_EQ(normalised_module("language_model.mtp.fc"), "mtp.fc");
  EXPECT_EQ(normalised_module("remodel.fc"), "remodel.fc");
  auto map = read(R"({"quantization":{"bits":4,"group_size":64,"model.layers.7.mlp.gate":{"bits":8}}})");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->lookup("language_model.model.layers.7.mlp.gate.weight")->q.bits, 8);
  EXPECT_FALSE(map->lookup("language_model.model.layers.17.mlp.gate").has_value());
}

TEST(Quantisation, ForeignAndImpossibleOnesAreRefusedByName) {
  for (const char* text :
       {R"({"quantization_config":{"quant_method":"awq","bits":4}})",
        R"({"quantization_config":{"quant_method":"compressed-tensors"}})",
        R"({"quantization":{"bits":7,"group_size":64}})", R"({"quantization":{"bits":4,"group_size":16}})",
        R"({"quantization":{"bits":4,"mode":"int4"}})", R"({"quantization":{"bits":8,"mode":"mxfp4"}})",
        R"({"quantization":{"group_size":32,"mode":"nvfp4"}})",
        R"({"quantization":{"bits":4,"x.y":{"bits":1}}})"}) {
    auto map = read(text);
    ASSERT_FALSE(map.ok()) << text;
    EXPECT_EQ(map.error().code, Code::kUnsupported);
    EXPECT_EQ(map.error().message.find("config.json: quantization"), 0U) << map.error().message;
  }
  for (const char* text :
       {R"({"quantization":{"bits":"4"}})", R"({"quantization":{"bits":-4}})",
        R"({"quantization":{"bits":4,"group_size":1e3}})", R"({"quantization":{"bits":99999999999}})"}) {
    auto map = read(text);
    ASSERT_FALSE(map.ok()) << text;
    EXPECT_EQ(map.error().code, Code::kInvalid);
  }
}

TEST(Quantisation, ShapesGiveWidthAndGroupForEveryPair) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      const std::int64_t in = 384;
      EXPECT_EQ(resolve_affine(in, in * bits / 32, in / group),
                (Quantisation{QuantMode::kAffine, bits, group}));
    }
  }
}

TEST(Quantisation, ShapesTellTheBlockFormatsApart) {
  EXPECT_EQ(resolve_block_float(384, 48, 12), (Quantisation{QuantMode::kMxfp4, 4, 32}));
  EXPECT_EQ(resolve_block_float(384, 96, 12), (Quantisation{QuantMode::kMxfp8, 8, 32}));
  EXPECT_EQ(resolve_block_float(384, 48, 24), (Quantisation{QuantMode::kNvfp4, 4, 16}));
  EXPECT_FALSE(resolve_block_float(384, 96, 24).has_value()) << "8 bits in groups of 16";
  EXPECT_FALSE(resolve_block_float(384, 48, 6).has_value()) << "groups of 64";
}

TEST(Quantisation, ShapesThatFitNoPairGiveNothing) {
  EXPECT_FALSE(resolve_affine(384, 84, 6).has_value()) << "7 bits";
  EXPECT_FALSE(resolve_affine(384, 49, 6).has_value()) << "a fraction of a bit";
  EXPECT_FALSE(resolve_affine(384, 48, 5).has_value()) << "a fraction of a group";
  EXPECT_FALSE(resolve_affine(384, 48, 24).has_value()) << "groups of 16";
  EXPECT_FALSE(resolve_affine(384, 48, 0).has_value());
  EXPECT_FALSE(resolve_affine(0, 48, 6).has_value());
  EXPECT_FALSE(resolve_affine(384, INT64_MAX, 6).has_value());
}

}  // namespace
}  // namespace ft::format::quantisation_test
