#include "backends/weight_rows.h"

#include <array>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "format/safetensors.h"

namespace ft::weight_rows_test {
namespace {

struct Vector {
  int bits;
  std::vector<std::uint32_t> words;
  std::vector<int> codes;  // the first ones
};

// MLX's own packing of w[i] = 0.25 * q[i] with scale -0.25 and bias 0.25 * (2^bits - 1); the codes are
// (2^bits - 1) - q.
const std::vector<Vector>& mlx_vectors() {
  static const std::vector<Vector> vectors = {
      {2, {0xe4e4e4ec, 0xe4e4e4e4}, {3, 0, 1, 0, 3, 2, 1, 0}},
      {3, {0xac688fb8, 0x8fac688f, 0x688fac68}, {7, 0, 1, 0, 7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4}},
      {4, {0xb2907ef0, 0x3a18f6d4, 0xb2907e5c, 0x3a18f6d4}, {15, 0, 1, 8, 15, 6, 13, 4, 11, 2, 9, 0}},
      {5,
       {0xb203bbe0, 0x87dba45c, 0xf8ac9e82, 0xb4d8930b, 0x1aa38f99},
       {31, 0, 17, 24, 31, 6, 13, 20, 27, 2}},
      {6,
       {0x609eefc0, 0x6f442d26, 0x4da868bf, 0x70dfe14c, 0x63546e2a, 0x8eac78fc},
       {63, 0, 17, 24, 31, 38, 45, 52, 59, 2, 9, 16}},
      {8,
       {0xe7eeff00, 0xcbd2d9e0, 0xafb6bdc4, 0x939aa1a8, 0x777e858c, 0x5b626970, 0x3f464d54, 0x232a3138},
       {255, 0, 17, 24, 31, 38, 45}},
  };
  return vectors;
}

TEST(WeightRows, ReadsEveryWidthAsMlxPacksIt) {
  for (const Vector& vector : mlx_vectors()) {
    const std::uint16_t scale = 0xBE80;  // -0.25 in bf16
    const float edge = 0.25F * static_cast<float>((1 << vector.bits) - 1);
    Weight weight{.name = "w",
                  .format = Format::kAffine,
                  .rows = 1,
                  .cols = 32,
                  .data = reinterpret_cast<const std::byte*>(vector.words.data()),
                  .bits = vector.bits,
                  .group = 32};
    std::uint32_t edge_bits = 0;
    std::memcpy(&edge_bits, &edge, 4);
    const auto bias = static_cast<std::uint16_t>(edge_bits >> 16);  // exact for these values
    weight.scales = reinterpret_cast<const std::byte*>(&scale);
    weight.biases = reinterpret_cast<const std::byte*>(&bias);
    std::array<float, 32> out{};
    read_rows(weight, 0, 1, out.data());
    for (std::size_t i = 0; i < vector.codes.size(); ++i) {
      EXPECT_EQ(out[i], 0.25F * static_cast<float>(vector.codes[i])) << vector.bits << " bits, element " << i;
    }
  }
}

TEST(WeightRows, ReadsHalfAndBfloatExactlyAndAddsTheOffset) {
  // 1.5, -2, smallest subnormal, -0.25 | 1.5, -2; bf16 has no neighbours of 2^-24.
  const std::array<std::uint16_t, 4> half = {0x3E00, 0xC000, 0x0001, 0xB400};
  Weight weight{.name = "w",
                .format = Format::kF16,
                .rows = 2,
                .cols = 2,
                .data = reinterpret_cast<const std::byte*>(half.data())};
  std::array<float, 4> out{};
  read_rows(weight, 0, 2, out.data());
  EXPECT_EQ(out, (std::array<float, 4>{1.5F, -2.0F, 0x1p-24F, -0.25F}));
  read_rows(weight, 1, 1, out.data());
  EXPECT_EQ(out[0], 0x1p-24F);
  const std::array<std::uint16_t, 2> bfloat = {0x3FC0, 0xC000};
  weight = {.name = "w",
            .format = Format::kBf16,
            .rows = 1,
            .cols = 2,
            .data = reinterpret_cast<const std::byte*>(bfloat.data()),
            .offset = 1};
  read_rows(weight, 0, 1, out.data());
  EXPECT_EQ(out[0], 2.5F);
  EXPECT_EQ(out[1], -1.0F);
}

TEST(WeightRows, TakesScalesOfTheRightRowAndGroup) {
  std::vector<std::byte> data(2 * 64, std::byte{1});  // 2 rows, 64 columns, 8 bits
  const std::array<float, 4> scales = {1, 2, 3, 4};
  const std::array<float, 4> biases = {10, 20, 30, 40};
  const Weight weight{.name = "w",
                      .format = Format::kAffine,
                      .rows = 2,
                      .cols = 64,
                      .data = data.data(),
                      .bits = 8,
                      .group = 32,
                      .scales = reinterpret_cast<const std::byte*>(scales.data()),
                      .biases = reinterpret_cast<const std::byte*>(biases.data()),
                      .scale_format = Format::kF32};
  std::vector<float> out(128);
  read_rows(weight, 0, 2, out.data());
  EXPECT_EQ(out[0], 11);
  EXPECT_EQ(out[32], 22);
  EXPECT_EQ(out[64], 33);
  EXPECT_EQ(out[127], 44);
}

// Made by tools/make_quant_golden.py with MLX: matrices that MLX quantised, and every code with scales of all
// sizes.
TEST(WeightRows, ReadsBlockFloatsToTheValuesThatMlxGives) {
  const Result<MappedFile> file = MappedFile::open("tests/golden/quant/blocks.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Result<format::Safetensors> parsed = format::parse_safetensors(file->bytes(), file->path());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  std::map<std::string, const format::TensorView*> tensors;
  for (const format::TensorView& tensor : parsed->tensors) tensors[tensor.name] = &tensor;
  for (const Format format : {Format::kMxfp4, Format::kMxfp8, Format::kNvfp4}) {
    for (const char* rows : {"", ".all"}) {
      const std::string name = std::string(format_name(format)) + rows;
      const format::TensorView& values = *tensors.at(name + ".values");
      const Weight weight{.name = name,
                          .format = format,
                          .rows = values.shape[0],
                          .cols = values.shape[1],
                          .data = tensors.at(name + ".weight")->bytes.data(),
                          .bits = format == Format::kMxfp8 ? 8 : 4,
                          .group = format == Format::kNvfp4 ? 16 : 32,
                          .scales = tensors.at(name + ".scales")->bytes.data(),
                          .scale_format = format == Format::kNvfp4 ? Format::kE4m3 : Format::kE8m0};
      std::vector<float> got(static_cast<std::size_t>(weight.rows * weight.cols));
      read_rows(weight, 0, weight.rows, got.data());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], format::load_float(values.bytes.data(), values.dtype, i)) << name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ft::weight_rows_test
