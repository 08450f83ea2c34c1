#include "models/blocks/rope.h"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft::blocks::rope_test {
namespace {

Rope read(const std::string& text, int head_dim = 64, std::int64_t positions = 131072) {
  const nlohmann::json object = nlohmann::json::parse(text);
  format::KeyReader keys(object, "dir/config.json");
  const Rope rope = read_rope(keys, {1e4, 1, head_dim, positions});
  EXPECT_TRUE(keys.status().ok()) << keys.status().error().message;
  return rope;
}

TEST(Rope, InnerKeysWinOverOuterOnes) {
  EXPECT_EQ(read(R"({"rope_theta":5e5})").theta, 5e5);
  EXPECT_EQ(read(R"({"rope_theta":5e5,"rope_parameters":{"rope_theta":7e5}})").theta, 7e5);
  EXPECT_EQ(read(R"({"rope_scaling":null})").type, RopeType::kDefault);
  EXPECT_EQ(read(R"({"rope_scaling":{"type":"linear","factor":2}})").type, RopeType::kLinear);
  EXPECT_EQ(read(R"({"partial_rotary_factor":0.5})").rotary_dim, 32);
}

// Llama 3.2: long waves are 32 times longer, short ones stay, two of those between are mixed.
TEST(Rope, Llama3StretchesLongWaves) {
  const std::string theta = R"({"rope_theta":500000)";
  const auto plain = inverse_frequencies(read(theta + "}"));
  const auto scaled = inverse_frequencies(
      read(theta + R"(,"rope_scaling":{"rope_type":"llama3","factor":32,"low_freq_factor":1,
      "high_freq_factor":4,"original_max_position_embeddings":8192}})"));
  ASSERT_EQ(scaled.size(), 32U);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[14], plain[14]);
  EXPECT_FLOAT_EQ(scaled[31], plain[31] / 32);
  EXPECT_FLOAT_EQ(scaled[18], plain[18] / 32);
  for (const std::size_t j : {15U, 16U, 17U}) {
    const double wave = 2 * 3.14159265358979 / static_cast<double>(plain[j]);
    const double smooth = (8192 / wave - 1) / 3;
    EXPECT_NEAR(scaled[j],
                (1 - smooth) * static_cast<double>(plain[j]) / 32 + smooth * static_cast<double>(plain[j]),
                1e-9)
        << j;
  }
}

TEST(Rope, YarnScalesCosineAndSine) {
  const Rope usual = read(R"({"rope_scaling":{"rope_type":"yarn","factor":32,"truncate":false,
      "original_max_position_embeddings":4096}})");
  EXPECT_NEAR(usual.attention_factor, 0.1 * std::log(32) + 1, 1e-12);
  EXPECT_FALSE(usual.truncate);
  const Rope same =
      read(R"({"rope_scaling":{"rope_type":"yarn","factor":16,"mscale":1,"mscale_all_dim":1}})");
  EXPECT_EQ(same.attention_factor, 1);
  const Rope derived = read(R"({"rope_parameters":{"rope_type":"yarn","factor":null,
      "original_max_position_embeddings":32768}})");
  EXPECT_EQ(derived.factor, 4) << "131072 / 32768";
  EXPECT_EQ(read(R"({"original_max_position_embeddings":1024,"rope_scaling":{"rope_type":"yarn","factor":2,
      "original_max_position_embeddings":32768}})")
                .original_positions,
            1024);
}

TEST(Rope, LinearDividesAllFrequencies) {
  const auto plain = inverse_frequencies(read("{}"));
  const auto linear = inverse_frequencies(read(R"({"rope_scaling":{"type":"linear","factor":4}})"));
  for (std::size_t j = 0; j < plain.size(); ++j) EXPECT_FLOAT_EQ(linear[j], plain[j] / 4);
}

}  // namespace
}  // namespace ft::blocks::rope_test
