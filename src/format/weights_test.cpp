#include "format/weights.h"

#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "format/json_text.h"
#include "format/model_fixture.h"

namespace ft::format::weights_test {
namespace {

constexpr std::string_view kOfHead[] = {"", "language_model."};
constexpr std::string_view kOfTarget[] = {"model.language_model.", "language_model.model.", "model.",
                                          "language_model.", ""};
constexpr NamePrefixes kPrefixes[] = {{"lm_head.", kOfHead}, {"", kOfTarget}};

class Weights : public ::testing::Test {
 protected:
  /// Opens a model with these tensors.
  WeightIndex& open(const std::vector<Piece>& pieces, const std::string& metadata = "",
                    const std::string& quantisation = "{}", std::optional<bool> tied = {}) {
    folder_.write("model.safetensors", safetensors_file(pieces, metadata));
    auto checkpoint = Checkpoint::open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const auto config = parse_json(quantisation, "config.json", DuplicateKeys::kRefuse);
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto map = QuantisationMap::read(**config, "config.json");
    EXPECT_TRUE(map.ok()) << map.error().message;
    index_.reset();
    checkpoint_ = std::make_unique<Checkpoint>(std::move(*checkpoint));
    index_.emplace(*checkpoint_, WeightLayout{"config.json", kPrefixes, std::move(*map), tied});
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
  std::unique_ptr<Checkpoint> checkpoint_;
  std::optional<WeightIndex> index_;
};

template <class T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "ok" : result.error().message;
}

TEST_F(Weights, AStackIsOneMatrixOfTheRowsOfAll) {
  auto plain_stack = open({plain("layers.0.w", 24, "[2,3,4]")}).stack("layers.0.w", 2, 3, 4);
  ASSERT_TRUE(plain_stack.ok()) << plain_stack.error().message;
  EXPECT_EQ(plain_stack->rows, 6);
  EXPECT_EQ(plain_stack->cols, 4);
  std::vector<Piece> pieces = {{"m.weight", "U32", "[2,3,8]", std::string(192, 'w')},
                               {"m.scales", "BF16", "[2,3,2]", std::string(24, 's')},
                               {"m.biases", "BF16", "[2,3,2]", std::string(24, 'b')}};
  auto codes = open(pieces).stack("m.weight", 2, 3, 64);
  ASSERT_TRUE(codes.ok()) << codes.error().message;
  EXPECT_EQ(codes->rows, 6);
  EXPECT_EQ(codes->bits, 4);
  EXPECT_EQ(codes->group, 32);
  EXPECT_NE(message_of(open(pieces).stack("m.weight", 3, 3, 64)).find("[3,3,..], one matrix for each expert"),
            std::string::npos);
  pieces[2].shape = "[3,2,2]";
  EXPECT_NE(message_of(open(pieces).stack("m.weight", 2, 3, 64)).find("'m.biases'"), std::string::npos);
  pieces[2] = {"m.other", "BF16", "[2,3,2]", std::string(24, 'b')};
  EXPECT_NE(message_of(open(pieces).stack("m.weight", 2, 3, 64)).find("'.scales' and '.biases'"),
            std::string::npos);
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
  EXPECT_NE(message_of(index.matrix("y.weight", 1, 8)).find("U32 without '.scales' next to it"),
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
  EXPECT_EQ(warnings_with(R"({"quantization":{"bits":4,"group_size":32}})"), 0U);
  EXPECT_EQ(warnings_with(R"({"quantization":{"bits":8,"group_size":64}})"), 1U);
  EXPECT_EQ(warnings_with(R"({"quantization":{"bits":8,"group_size":64,
      "model.layers.0.mlp.up_proj":{"bits":4,"group_size":32}}})"),
            0U);
  EXPECT_EQ(
      warnings_with(R"({"quantization":{"bits":4,"group_size":32,"model.layers.0.mlp.up_proj":false}})"), 1U);
}

TEST_F(Weights, TheTrunksGlobalWidthsSayNothingAboutTheHead) {
  WeightIndex& index = open(quantised("mtp.fc"), "", R"({"quantization":{"bits":8,"group_size":64}})");
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
    const std::string config = R"({"quantization":{"bits":8,"group_size":64,"a":{"mode":")" + name + "\"}}}";
    WeightIndex& index = open(stored(shape.words, shape.groups), "", config);
    const auto matrix = index.matrix("a.weight", 3, 64);
    ASSERT_TRUE(matrix.ok()) << matrix.error().message;
    EXPECT_EQ((Quantisation{matrix->mode, matrix->bits, matrix->group}), shape.meant);
    EXPECT_EQ(matrix->scale_dtype, shape.scales);
    EXPECT_EQ(matrix->biases, nullptr);
    EXPECT_TRUE(index.warnings().empty()) << index.warnings()[0];
  }
  WeightIndex& other = open(stored(8, 4), "", R"({"quantization":{"mode":"mxfp4"}})");
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

TEST_F(Weights, TiesAreDecidedByTheTensors) {
  EXPECT_FALSE(*open({plain("lm_head.weight", 4, "[2,2]")}, "", "{}", true).head_is_tied());
  EXPECT_TRUE(*open({}).head_is_tied());
  EXPECT_TRUE(*open({}, "", "{}", true).head_is_tied());
  EXPECT_NE(message_of(open({}, "", "{}", false).head_is_tied()).find("lm_head.weight"), std::string::npos);
}

}  // namespace
}  // namespace ft::format::weights_test
