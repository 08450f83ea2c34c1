#include "convert/conversion.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>

#include "format/model_fixture.h"

namespace ft::convert::conversion_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = text_of(entry.path());
  return files;
}

/// A source of `layers` matrices of 64 x 64 float32, and the parts of a conversion of it.
class Conversion : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<format::Piece> pieces;
    for (int layer = 0; layer < 12; ++layer) {
      std::vector<float> values(std::size_t{64} * 64);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) - 40.0F + layer;
      const std::string name = "model.layers." + std::to_string(layer) + ".mlp.up_proj.weight";
      pieces.push_back({name, "F32", "[64,64]", format::floats(values)});
    }
    folder_.write("source/model.safetensors", format::safetensors_file(pieces, R"({"format":"pt"})"));
    folder_.write("source/config.json", R"({"model_type":"qwen3_5"})");
    Result<Source> source = open_source(folder_.file("source"));
    ASSERT_TRUE(source.ok()) << source.error().message;
    source_ = std::move(*source);
    recipe_ = *uniform_recipe("affine", 4, 32);
    Result<Plan> plan = make_plan(source_, recipe_, std::uint64_t{64} * 64);  // a file a matrix
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    plan_ = std::move(*plan);
  }

  Result<ConversionResult> run(const std::string& name, std::uint64_t stop_after) {
    const ConversionOptions options{folder_.file(name), 2, false};
    return convert_model(source_, recipe_, plan_, options,
                         [&](std::uint64_t done, std::uint64_t) { return done < stop_after; });
  }

  format::TemporaryFolder folder_;
  Source source_;
  Recipe recipe_;
  Plan plan_;
};

TEST_F(Conversion, AStoppedRunContinues) {
  ASSERT_EQ(plan_.files.size(), 12U);
  ASSERT_TRUE(run("whole", UINT64_MAX).ok());
  const auto wanted = files_of(folder_.file("whole"));
  EXPECT_TRUE(wanted.contains("model-00012-of-00012.safetensors"));
  for (std::uint64_t file = 0; file < 12; ++file) {
    const std::string name = "stopped" + std::to_string(file);
    const Result<ConversionResult> stopped = run(name, file * 16384 + 1);
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, Code::kCancelled);
    EXPECT_FALSE(fs::exists(folder_.file(name) + "/config.json"));
    const Result<ConversionResult> continued = run(name, UINT64_MAX);
    ASSERT_TRUE(continued.ok()) << continued.error().message;
    EXPECT_EQ(continued->kept, static_cast<int>(file));
    EXPECT_EQ(files_of(folder_.file(name)), wanted);
  }
}

TEST_F(Conversion, LayersAreInOrderAcrossFiles) {
  for (std::size_t i = 0; i < plan_.files.size(); ++i) {
    EXPECT_EQ(plan_.files[i].tensors.front().module(),
              "language_model.model.layers." + std::to_string(i) + ".mlp.up_proj");
  }
}

TEST(Recipe, ShrinksGroupsToTheColumnsAndRaisesTheEmbedding) {
  const Recipe recipe = *uniform_recipe("affine", 4, 128);
  const auto chosen = [&](TensorKind kind, std::int64_t cols) {
    return choose_format(recipe, "m", kind, cols);
  };
  using format::QuantMode;
  EXPECT_EQ(chosen(TensorKind::kLinear, 320), (format::Quantisation{QuantMode::kAffine, 4, 64}));
  EXPECT_EQ(chosen(TensorKind::kLinear, 96), (format::Quantisation{QuantMode::kAffine, 4, 32}));
  EXPECT_EQ(chosen(TensorKind::kLinear, 72), std::nullopt);
  EXPECT_EQ(chosen(TensorKind::kEmbedding, 128), (format::Quantisation{QuantMode::kAffine, 6, 128}));
  EXPECT_EQ(chosen(TensorKind::kSmall, 128), (format::Quantisation{QuantMode::kAffine, 8, 64}));
}

TEST(Names, BecomeThoseOfMlx) {
  const ConversionNames& names = find_family("qwen3_5")->conversion;
  EXPECT_EQ(mlx_name(names, canonical_name("model.language_model.layers.3.mlp.up_proj.weight")),
            "language_model.model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(mlx_name(names, canonical_name("lm_head.weight")), "language_model.lm_head.weight");
  ExpertPart part;
  ASSERT_TRUE(read_expert_part(names, "layers.0.mlp.experts.17.down_proj.weight", part));
  EXPECT_EQ(part.index, 17);
  EXPECT_EQ(expert_name(names, part, part.projection), "layers.0.mlp.switch_mlp.down_proj.weight");
  EXPECT_FALSE(read_expert_part(names, "layers.0.mlp.shared_expert.down_proj.weight", part));
  EXPECT_FALSE(read_expert_part(names, "layers.0.mlp.experts.9", part));
  EXPECT_EQ(mlx_name(find_family("llama")->conversion, canonical_name("model.layers.3.mlp.up_proj.weight")),
            "model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(mlx_name(find_family("llama")->conversion, "lm_head.weight"), "lm_head.weight");
}

}  // namespace
}  // namespace ft::convert::conversion_test
