#include "models/qwen3_5/norms.h"

#include <gtest/gtest.h>
#include <memory>
#include <optional>

#include "format/model_fixture.h"
#include "models/qwen3_5/family.h"
#include "models/qwen3_5/names.h"

namespace ft::qwen3_5::norms_test {
namespace {

using format::Checkpoint;
using format::floats;
using format::Piece;
using format::safetensors_file;
using format::TemporaryFolder;
using format::WeightIndex;

class Norms : public ::testing::Test {
 protected:
  /// Opens a model with these tensors. The config has 2 layers.
  WeightIndex& open(const std::vector<Piece>& pieces, const std::string& metadata = "",
                    const std::string& keys = "") {
    folder_.write("model.safetensors", safetensors_file(pieces, metadata));
    auto checkpoint = Checkpoint::open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto files = format::ConfigFiles::parse(R"({"model_type":"qwen3_5","num_hidden_layers":2)" + keys + "}",
                                            "", "", "config.json");
    auto config = Config::read(*files, "qwen3_5");
    EXPECT_TRUE(config.ok()) << config.error().message;
    index_.reset();
    checkpoint_ = std::make_unique<Checkpoint>(std::move(*checkpoint));
    config_.emplace(std::move(*config));
    index_.emplace(*checkpoint_, format::WeightLayout{"config.json", kPrefixes, {}, {}});
    return *index_;
  }
  Result<bool> are_shifted(WeightIndex& index) { return norms_are_shifted(index, *config_); }
  Result<bool> mtp_shifted(WeightIndex& index) { return mtp_norms_are_shifted(index, *config_); }

  static Piece plain(const std::string& name, std::size_t count, const std::string& shape, float value = 1) {
    return {name, "F32", shape, floats(std::vector<float>(count, value))};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::optional<Config> config_;
  std::optional<WeightIndex> index_;
};

template <class T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "ok" : result.error().message;
}

std::vector<Piece> target_tensors(const std::string& prefix, const std::string& conv_shape, float norm) {
  return {
      {prefix + "layers.0.linear_attn.conv1d.weight", "F32", conv_shape, floats(std::vector<float>(8, 0))},
      {prefix + "layers.0.input_layernorm.weight", "F32", "[2]", floats({norm, norm})}};
}

TEST_F(Norms, AgreeingSignsDecideHowNormsAreStored) {
  auto raw =
      are_shifted(open(target_tensors("model.language_model.", "[2,1,4]", 0.1F), R"({"format":"pt"})"));
  ASSERT_TRUE(raw.ok()) << raw.error().message;
  EXPECT_FALSE(*raw);
  auto mlx =
      are_shifted(open(target_tensors("language_model.model.", "[2,4,1]", 1.1F), R"({"format":"mlx"})"));
  ASSERT_TRUE(mlx.ok());
  EXPECT_TRUE(*mlx);
  auto text_only = are_shifted(open(target_tensors("model.", "[2,1,4]", 0.1F)));
  ASSERT_TRUE(text_only.ok()) << "conv1d and the values agree";
  EXPECT_FALSE(*text_only);
  EXPECT_TRUE(index_->warnings().empty());
}

TEST_F(Norms, OneSignAgainstThreeIsOutvotedAndSaid) {
  auto shifted =
      are_shifted(open(target_tensors("language_model.model.", "[2,4,1]", 1.1F), R"({"format":"pt"})"));
  ASSERT_TRUE(shifted.ok()) << shifted.error().message;
  EXPECT_TRUE(*shifted);
  ASSERT_EQ(index_->warnings().size(), 1U);
  EXPECT_NE(index_->warnings()[0].find("metadata format says raw ('pt')"), std::string::npos);
}

TEST_F(Norms, SignsThatDoNotAgreeAreAnErrorThatListsThem) {
  const std::string split = message_of(
      are_shifted(open(target_tensors("model.language_model.", "[2,4,1]", 1.1F), R"({"format":"pt"})")));
  for (const char* part : {"last side of conv1d says shifted", "metadata format says raw",
                           "name prefix says raw", "mean of the input norms says shifted (1.1"}) {
    EXPECT_NE(split.find(part), std::string::npos) << split;
  }
  EXPECT_FALSE(are_shifted(open({plain("model.layers.0.input_layernorm.weight", 2, "[2]", 0)})).ok())
      << "one sign is not two";
}

TEST_F(Norms, TheHeadsNormsFollowContractThenPlaceThenValues) {
  auto pieces = target_tensors("model.language_model.", "[2,1,4]", 0.1F);
  pieces.push_back(plain("mtp.layers.0.input_layernorm.weight", 2, "[2]", 0.9F));
  EXPECT_FALSE(*mtp_shifted(open(pieces))) << "in a raw target's shard, whatever its mean";
  EXPECT_TRUE(*mtp_shifted(open(pieces, "", R"(,"mtplx_mtp_norm_encoding":"final")")));
  EXPECT_FALSE(*mtp_shifted(open(pieces, "", R"(,"mtplx_mtp_norm_encoding":"delta")")));

  pieces.pop_back();
  folder_.write("mtp.safetensors",
                safetensors_file({plain("mtp.layers.0.input_layernorm.weight", 2, "[2]", 0.9F)}));
  EXPECT_TRUE(*mtp_shifted(open(pieces))) << "a sidecar is final";
  folder_.write("mtp.safetensors",
                safetensors_file({plain("mtp.layers.0.input_layernorm.weight", 2, "[2]", 0.1F)}));
  EXPECT_FALSE(*mtp_shifted(open(pieces))) << "its values say otherwise";
  EXPECT_EQ(index_->warnings().size(), 1U);
}

TEST_F(Norms, TheHeadIsFoundUnderEveryExportersName) {
  for (const char* stored : {"mtp.fc.weight", "language_model.mtp.fc.weight", "model.mtp.fc.weight"}) {
    EXPECT_EQ(message_of(open({plain(stored, 4, "[2,2]")}).matrix("mtp.fc.weight", 2, 2)), "ok");
  }
}

}  // namespace
}  // namespace ft::qwen3_5::norms_test
