#include "format/weights.h"

#include <gtest/gtest.h>
#include <memory>
#include <optional>

#include "format/model_fixture.h"

namespace ft::format {
namespace {

struct Loaded {
  Checkpoint checkpoint;
  ModelConfig config;
};

class Weights : public ::testing::Test {
 protected:
  /// Opens a model with these tensors. The config has 2 layers.
  WeightIndex& open(const std::vector<Piece>& pieces, const std::string& metadata = "",
                    const std::string& keys = "") {
    folder_.write("model.safetensors", safetensors_file(pieces, metadata));
    folder_.write("config.json", R"({"model_type":"qwen3_5","num_hidden_layers":2)" + keys + "}");
    auto checkpoint = Checkpoint::open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto config = ModelConfig::read(folder_.path());
    EXPECT_TRUE(config.ok()) << config.error().message;
    index_.reset();
    loaded_ = std::make_unique<Loaded>(Loaded{std::move(*checkpoint), std::move(*config)});
    index_.emplace(loaded_->checkpoint, loaded_->config);
    return *index_;
  }

  static Piece plain(const std::string& name, std::size_t count, const std::string& shape, float value = 1) {
    return {name, "F32", shape, floats(std::vector<float>(count, value))};
  }
  /// 3 x 64 at 4 bits in groups of 32.
  static std::vector<Piece> quantised(const std::string& module) {
    return {{module + ".weight", "U32", "[3,8]", std::string(96, 'w')},
            {module + ".scales", "BF16", "[3,2]", std::string(12, 's')},
            {module + ".biases", "BF16", "[3,2]", std::string(12, 'b')}};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Loaded> loaded_;
  std::optional<WeightIndex> index_;
};

template <class T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "ok" : result.error().message;
}

TEST_F(Weights, EveryExportersNameIsFoundUnderTheCanonicalOne) {
  for (const char* stored : {"model.language_model.norm.weight", "language_model.model.norm.weight",
                             "model.norm.weight", "norm.weight"}) {
    auto found = open({plain(stored, 4, "[4]")}).vector("norm.weight", 4);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->name, stored);
  }
  for (const char* stored : {"lm_head.weight", "language_model.lm_head.weight"}) {
    EXPECT_EQ(message_of(open({plain(stored, 4, "[2,2]")}).matrix("lm_head.weight", 2, 2)), "ok");
  }
  for (const char* stored : {"mtp.fc.weight", "language_model.mtp.fc.weight", "model.mtp.fc.weight"}) {
    EXPECT_EQ(message_of(open({plain(stored, 4, "[2,2]")}).matrix("mtp.fc.weight", 2, 2)), "ok");
  }
}

TEST_F(Weights, AnAbsentTensorIsNamedInEverySpelling) {
  const std::string message = message_of(open({}).matrix("embed_tokens.weight", 2, 2));
  EXPECT_NE(
      message.find("'model.language_model.embed_tokens.weight', 'language_model.model.embed_tokens.weight'"),
      std::string::npos)
      << message;
}

TEST_F(Weights, BothConvolutionLayoutsAreTheSameMatrix) {
  for (const char* shape : {"[8,1,4]", "[8,4,1]", "[8,4]"}) {
    auto conv = open({plain("layers.0.linear_attn.conv1d.weight", 32, shape)})
                    .matrix("layers.0.linear_attn.conv1d.weight", 8, 4);
    ASSERT_TRUE(conv.ok()) << conv.error().message;
    EXPECT_EQ(conv->rows, 8);
    EXPECT_EQ(conv->cols, 4);
    EXPECT_FALSE(conv->quantised);
  }
}

TEST_F(Weights, AWrongShapeOrTypeNamesBothShapes) {
  WeightIndex& index = open({plain("norm.weight", 6, "[2,3]"),
                             {"x.weight", "I32", "[1]", "abcd"},
                             {"y.weight", "U32", "[1,1]", "abcd"}});
  EXPECT_NE(message_of(index.matrix("norm.weight", 3, 2)).find("expected [3,2], found F32 [2,3]"),
            std::string::npos);
  EXPECT_NE(message_of(index.vector("norm.weight", 6)).find("expected [6], found F32 [2,3]"),
            std::string::npos);
  EXPECT_EQ(index.matrix("x.weight", 1, 1).error().code, Code::kUnsupported);
  EXPECT_NE(message_of(index.matrix("y.weight", 1, 8)).find("U32 without '.scales' beside it"),
            std::string::npos);
}

TEST_F(Weights, AnAffineMatrixIsResolvedFromItsShapes) {
  WeightIndex& index = open(quantised("language_model.model.layers.0.mlp.up_proj"));
  auto matrix = index.matrix("layers.0.mlp.up_proj.weight", 3, 64);
  ASSERT_TRUE(matrix.ok()) << matrix.error().message;
  EXPECT_TRUE(matrix->quantised);
  EXPECT_EQ(matrix->bits, 4);
  EXPECT_EQ(matrix->group, 32);
  EXPECT_EQ(matrix->scale_dtype, DType::kBF16);
  EXPECT_EQ(static_cast<char>(matrix->data[0]), 'w');
  EXPECT_EQ(static_cast<char>(matrix->scales[0]), 's');
  EXPECT_EQ(static_cast<char>(matrix->biases[0]), 'b');
  EXPECT_TRUE(index.warnings().empty());
  EXPECT_FALSE(index.matrix("layers.0.mlp.up_proj.weight", 4, 64).ok());
  EXPECT_NE(message_of(index.matrix("layers.0.mlp.up_proj.weight", 3, 96)).find("of 96 columns"),
            std::string::npos);
}

TEST_F(Weights, WhereTheConfigDiffersTheShapesAreBelievedAndItIsSaid) {
  const auto pieces = quantised("language_model.model.layers.0.mlp.up_proj");
  const auto warnings_with = [&](const char* keys) {
    WeightIndex& index = open(pieces, "", keys);
    EXPECT_EQ(message_of(index.matrix("layers.0.mlp.up_proj.weight", 3, 64)), "ok");
    return index.warnings().size();
  };
  EXPECT_EQ(warnings_with(R"(,"quantization":{"bits":4,"group_size":32})"), 0U);
  EXPECT_EQ(warnings_with(R"(,"quantization":{"bits":8,"group_size":64})"), 1U);
  EXPECT_EQ(warnings_with(R"(,"quantization":{"bits":8,"group_size":64,
      "model.layers.0.mlp.up_proj":{"bits":4,"group_size":32}})"),
            0U);
  EXPECT_EQ(warnings_with(R"(,"quantization":{"bits":4,"group_size":32,"model.layers.0.mlp.up_proj":false})"),
            1U);
}

TEST_F(Weights, TheTrunksGlobalWidthsSayNothingAboutTheHead) {
  WeightIndex& index = open(quantised("mtp.fc"), "", R"(,"quantization":{"bits":8,"group_size":64})");
  EXPECT_EQ(message_of(index.matrix("mtp.fc.weight", 3, 64)), "ok");
  EXPECT_TRUE(index.warnings().empty());
}

TEST_F(Weights, ScalesOfOneByteMeanBlockFloatsOfTheShapesFormat) {
  const auto stored = [](int words, int groups) -> std::vector<Piece> {
    const auto text = [](int count) { return "[3," + std::to_string(count) + "]"; };
    return {{"a.weight", "U32", text(words), std::string(static_cast<std::size_t>(12 * words), 'w')},
            {"a.scales", "U8", text(groups), std::string(static_cast<std::size_t>(3 * groups), 's')}};
  };
  struct Shape {
    int words, groups;
    Quantisation meant;
    DType scales;
  };
  for (const Shape& shape : {Shape{8, 2, {QuantMode::kMxfp4, 4, 32}, DType::kF8E8M0},
                             Shape{16, 2, {QuantMode::kMxfp8, 8, 32}, DType::kF8E8M0},
                             Shape{8, 4, {QuantMode::kNvfp4, 4, 16}, DType::kF8E4M3}}) {
    const std::string name(quant_mode_name(shape.meant.mode));
    const std::string config = R"(,"quantization":{"bits":8,"group_size":64,"a":{"mode":")" + name + "\"}}";
    WeightIndex& index = open(stored(shape.words, shape.groups), "", config);
    const auto matrix = index.matrix("a.weight", 3, 64);
    ASSERT_TRUE(matrix.ok()) << matrix.error().message;
    EXPECT_EQ((Quantisation{matrix->mode, matrix->bits, matrix->group}), shape.meant);
    EXPECT_EQ(matrix->scale_dtype, shape.scales);
    EXPECT_EQ(matrix->biases, nullptr);
    EXPECT_TRUE(index.warnings().empty()) << index.warnings()[0];
  }
  WeightIndex& other = open(stored(8, 4), "", R"(,"quantization":{"mode":"mxfp4"})");
  ASSERT_TRUE(other.matrix("a.weight", 3, 64).ok());
  ASSERT_EQ(other.warnings().size(), 1U);
  EXPECT_NE(other.warnings()[0].find("its shapes say nvfp4 4 bits, groups of 16"), std::string::npos);
}

TEST_F(Weights, BrokenQuantisationIsNamed) {
  auto without_biases = quantised("a");
  without_biases.pop_back();
  EXPECT_NE(message_of(open(without_biases).matrix("a.weight", 3, 64)).find("found only '.scales'"),
            std::string::npos);
  auto other_biases = quantised("a");
  other_biases[2] = {"a.biases", "F32", "[3,1]", std::string(12, 'b')};
  EXPECT_NE(message_of(open(other_biases).matrix("a.weight", 3, 64)).find("like its scales"),
            std::string::npos);
  auto mx = quantised("a");
  mx[1] = {"a.scales", "U8", "[3,2]", std::string(6, 's')};
  EXPECT_NE(message_of(open(mx).matrix("a.weight", 3, 64)).find("no '.biases' where scales are bytes"),
            std::string::npos);
  mx.pop_back();
  mx[1] = {"a.scales", "U8", "[3,1]", std::string(3, 's')};
  EXPECT_NE(
      message_of(open(mx).matrix("a.weight", 3, 64)).find("expected mxfp4, mxfp8 or nvfp4 of 64 columns"),
      std::string::npos);
  auto float_codes = quantised("a");
  float_codes[0] = {"a.weight", "BF16", "[3,16]", std::string(96, 'w')};
  EXPECT_NE(message_of(open(float_codes).matrix("a.weight", 3, 64)).find("expected U32"), std::string::npos);
}

std::vector<Piece> target(const std::string& prefix, const std::string& conv_shape, float norm) {
  return {
      {prefix + "layers.0.linear_attn.conv1d.weight", "F32", conv_shape, floats(std::vector<float>(8, 0))},
      {prefix + "layers.0.input_layernorm.weight", "F32", "[2]", floats({norm, norm})}};
}

TEST_F(Weights, AgreeingSignsDecideHowNormsAreStored) {
  auto raw = open(target("model.language_model.", "[2,1,4]", 0.1F), R"({"format":"pt"})").norms_are_shifted();
  ASSERT_TRUE(raw.ok()) << raw.error().message;
  EXPECT_FALSE(*raw);
  auto mlx =
      open(target("language_model.model.", "[2,4,1]", 1.1F), R"({"format":"mlx"})").norms_are_shifted();
  ASSERT_TRUE(mlx.ok());
  EXPECT_TRUE(*mlx);
  auto text_only = open(target("model.", "[2,1,4]", 0.1F)).norms_are_shifted();
  ASSERT_TRUE(text_only.ok()) << "conv1d and the values agree";
  EXPECT_FALSE(*text_only);
  EXPECT_TRUE(index_->warnings().empty());
}

TEST_F(Weights, OneSignAgainstThreeIsOutvotedAndSaid) {
  auto shifted =
      open(target("language_model.model.", "[2,4,1]", 1.1F), R"({"format":"pt"})").norms_are_shifted();
  ASSERT_TRUE(shifted.ok()) << shifted.error().message;
  EXPECT_TRUE(*shifted);
  ASSERT_EQ(index_->warnings().size(), 1U);
  EXPECT_NE(index_->warnings()[0].find("metadata format says raw ('pt')"), std::string::npos);
}

TEST_F(Weights, SignsThatDoNotAgreeAreAnErrorThatListsThem) {
  const std::string split = message_of(
      open(target("model.language_model.", "[2,4,1]", 1.1F), R"({"format":"pt"})").norms_are_shifted());
  for (const char* part : {"last side of conv1d says shifted", "metadata format says raw",
                           "name prefix says raw", "mean of the input norms says shifted (1.1"}) {
    EXPECT_NE(split.find(part), std::string::npos) << split;
  }
  EXPECT_FALSE(open({plain("model.layers.0.input_layernorm.weight", 2, "[2]", 0)}).norms_are_shifted().ok())
      << "one sign is not two";
}

TEST_F(Weights, TheHeadsNormsFollowContractThenPlaceThenValues) {
  auto pieces = target("model.language_model.", "[2,1,4]", 0.1F);
  pieces.push_back(plain("mtp.layers.0.input_layernorm.weight", 2, "[2]", 0.9F));
  EXPECT_FALSE(*open(pieces).mtp_norms_are_shifted()) << "in a raw trunk's shard, whatever its mean";
  EXPECT_TRUE(*open(pieces, "", R"(,"mtplx_mtp_norm_encoding":"final")").mtp_norms_are_shifted());
  EXPECT_FALSE(*open(pieces, "", R"(,"mtplx_mtp_norm_encoding":"delta")").mtp_norms_are_shifted());

  pieces.pop_back();
  folder_.write("mtp.safetensors",
                safetensors_file({plain("mtp.layers.0.input_layernorm.weight", 2, "[2]", 0.9F)}));
  EXPECT_TRUE(*open(pieces).mtp_norms_are_shifted()) << "a sidecar is final";
  folder_.write("mtp.safetensors",
                safetensors_file({plain("mtp.layers.0.input_layernorm.weight", 2, "[2]", 0.1F)}));
  EXPECT_FALSE(*open(pieces).mtp_norms_are_shifted()) << "its values say otherwise";
  EXPECT_EQ(index_->warnings().size(), 1U);
}

TEST_F(Weights, TiesAreDecidedByTheTensors) {
  EXPECT_FALSE(
      *open({plain("lm_head.weight", 4, "[2,2]")}, "", R"(,"tie_word_embeddings":true)").head_is_tied());
  EXPECT_TRUE(*open({}).head_is_tied());
  EXPECT_TRUE(*open({}, "", R"(,"tie_word_embeddings":true)").head_is_tied());
  EXPECT_NE(message_of(open({}, "", R"(,"tie_word_embeddings":false)").head_is_tied()).find("lm_head.weight"),
            std::string::npos);
}

}  // namespace
}  // namespace ft::format
