#include "format/affine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <random>

#include "base/mapped_file.h"
#include "format/half.h"
#include "format/safetensors.h"

namespace ft::format::affine_test {
namespace {

struct Vector {
  int bits;
  std::vector<int> q;                // w = 0.25 * q; MLX stores (2^bits - 1) - q
  std::vector<std::uint32_t> words;  // as MLX packs them
};

std::vector<int> repeated(std::vector<int> head, const std::vector<int>& tail, int times) {
  for (int i = 0; i < times; ++i) head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

std::vector<int> arithmetic(int bits) {
  std::vector<int> q = {(1 << bits) - 1, 0};
  for (int value = 17; q.size() < 32; value = (value + 7) & ((1 << bits) - 1)) q.push_back(value);
  return q;
}

// MLX made these on the CPU: one group of 32, float32.
std::vector<Vector> vectors() {
  return {
      {2, repeated({3, 0, 1, 0}, {3, 2, 1, 0}, 7), {0xe4e4e4ec, 0xe4e4e4e4}},
      {3,
       repeated({7, 0, 1, 0, 7, 6, 5, 4}, {3, 2, 1, 0, 7, 6, 5, 4}, 3),
       {0xac688fb8, 0x8fac688f, 0x688fac68}},
      {4,
       {15, 0,  1, 8, 15, 6, 13, 4, 11, 2, 9, 0, 7, 14, 5, 12,
        3,  10, 1, 8, 15, 6, 13, 4, 11, 2, 9, 0, 7, 14, 5, 12},
       {0xb2907ef0, 0x3a18f6d4, 0xb2907e5c, 0x3a18f6d4}},
      {5,
       {31, 0,  17, 24, 31, 6,  13, 20, 27, 2,  9,  16, 23, 30, 5,  12,
        19, 26, 1,  8,  15, 22, 29, 4,  11, 18, 25, 0,  7,  14, 21, 28},
       {0xb203bbe0, 0x87dba45c, 0xf8ac9e82, 0xb4d8930b, 0x1aa38f99}},
      {6, arithmetic(6), {0x609eefc0, 0x6f442d26, 0x4da868bf, 0x70dfe14c, 0x63546e2a, 0x8eac78fc}},
      {8,
       arithmetic(8),
       {0xe7eeff00, 0xcbd2d9e0, 0xafb6bdc4, 0x939aa1a8, 0x777e858c, 0x5b626970, 0x3f464d54, 0x232a3138}},
  };
}

TEST(Affine, PacksTheWordsThatMlxPacks) {
  for (const Vector& v : vectors()) {
    std::vector<float> w;
    for (const int q : v.q) w.push_back(0.25F * static_cast<float>(q));
    const AffineMatrix made = quantise_affine(w, 1, 32, v.bits, 32, DType::kF32);
    EXPECT_EQ(made.words, v.words) << v.bits;
    EXPECT_EQ(load_f32(made.scales.data()), -0.25F);
    EXPECT_EQ(load_f32(made.biases.data()), 0.25F * static_cast<float>((1 << v.bits) - 1));
    std::vector<float> back(32);
    dequantise_rows(stored(made, "m"), 0, 1, back.data());
    EXPECT_EQ(back, w) << v.bits;
  }
}

TEST(Affine, UnpacksByTheBitStreamRule) {
  for (const Vector& v : vectors()) {
    std::vector<std::uint8_t> codes(32);
    unpack_codes(reinterpret_cast<const std::byte*>(v.words.data()), v.bits, 32, codes.data());
    for (std::size_t i = 0; i < 32; ++i) {
      unsigned expected = 0;
      for (std::size_t bit = 0; bit < static_cast<std::size_t>(v.bits); ++bit) {
        const std::size_t k = i * static_cast<std::size_t>(v.bits) + bit;
        expected |= ((v.words[k / 32] >> (k % 32)) & 1U) << bit;
      }
      EXPECT_EQ(codes[i], expected) << v.bits << " bits, element " << i;
      EXPECT_EQ(codes[i], (1 << v.bits) - 1 - v.q[i]);
    }
  }
}

class AffineGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = MappedFile::open("tests/golden/quant/affine.safetensors");
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    file_ = std::move(*opened);
    auto parsed = parse_safetensors(file_.bytes(), file_.path());
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    for (TensorView& tensor : parsed->tensors) {
      const std::string name = tensor.name;
      tensors_.emplace(name, std::move(tensor));
    }
  }
  static bool same(const void* ours, const TensorView& golden, std::size_t bytes) {
    return golden.bytes.size() == bytes && std::memcmp(ours, golden.bytes.data(), bytes) == 0;
  }

  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
};

TEST_F(AffineGolden, QuantisesBitForBitAsMlxDoes) {
  for (const char* label : {"F32", "BF16", "F16"}) {
    const TensorView& input = tensors_.at(std::string("input.") + label);
    const auto rows = static_cast<std::size_t>(input.shape[0]);
    std::vector<float> values(rows * 128);
    load_floats(input.bytes.data(), input.dtype, 0, values.size(), values.data());
    for (const int bits : {2, 3, 4, 5, 6, 8}) {
      for (const int group : {32, 64, 128}) {
        const std::string name =
            std::string(label) + ".b" + std::to_string(bits) + ".g" + std::to_string(group);
        const AffineMatrix made = quantise_affine(values, input.shape[0], 128, bits, group, input.dtype);
        EXPECT_TRUE(same(made.words.data(), tensors_.at(name + ".weight"), made.words.size() * 4)) << name;
        EXPECT_TRUE(same(made.scales.data(), tensors_.at(name + ".scales"), made.scales.size())) << name;
        EXPECT_TRUE(same(made.biases.data(), tensors_.at(name + ".biases"), made.biases.size())) << name;
      }
    }
  }
}

TEST_F(AffineGolden, DequantisesToTheValuesThatMlxGives) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      const std::string name = "F32.b" + std::to_string(bits) + ".g" + std::to_string(group);
      const TensorView& weight = tensors_.at(name + ".weight");
      const TensorView& values = tensors_.at(name + ".values");
      const StoredMatrix matrix{name,
                                weight.dtype,
                                true,
                                bits,
                                group,
                                weight.shape[0],
                                128,
                                weight.bytes.data(),
                                tensors_.at(name + ".scales").bytes.data(),
                                tensors_.at(name + ".biases").bytes.data(),
                                DType::kF32};
      std::vector<float> ours(128);
      for (std::int64_t row = 0; row < matrix.rows; ++row) {
        dequantise_rows(matrix, row, 1, ours.data());
        for (std::size_t i = 0; i < 128; ++i) {
          const float golden =
              load_float(values.bytes.data(), DType::kF32, static_cast<std::size_t>(row) * 128 + i);
          EXPECT_EQ(ours[i], golden) << name << " row " << row << " column " << i;
        }
      }
    }
  }
}

/// mx.quantize of one group, as its definition says.
std::vector<std::uint8_t> codes_by_definition(std::span<const float> group, int bits) {
  const auto [low, high] = std::ranges::minmax(group);
  const auto levels = static_cast<float>((1 << bits) - 1);
  const bool from_low = std::fabs(low) > std::fabs(high);
  const float width = std::max((high - low) / levels, 1e-7F), edge = from_low ? low : high;
  float scale = from_low ? width : -width;
  const float at_edge = std::rint(edge / scale), bias = at_edge == 0 ? 0 : edge;
  if (at_edge != 0) scale = edge / at_edge;
  std::vector<std::uint8_t> codes;
  for (const float value : group)
    codes.push_back(static_cast<std::uint8_t>(std::clamp(std::rint((value - bias) / scale), 0.0F, levels)));
  return codes;
}

TEST(Affine, GroupsOfEverySizeOfValuesHaveTheCodesOfTheDefinition) {
  std::mt19937 random(11);
  for (const float size : {1e-30F, 1e-6F, 0.02F, 1.0F, 3e4F, 1e30F}) {
    std::normal_distribution<float> normal(size / 4, size);
    std::vector<float> w(std::size_t{64} * 128);
    for (float& value : w) value = normal(random);
    for (const int bits : {2, 3, 4, 5, 6, 8}) {
      for (const int group : {32, 64, 128}) {
        const AffineMatrix made = quantise_affine(w, 64, 128, bits, group, DType::kF32);
        std::vector<std::uint8_t> codes(w.size());
        unpack_codes(reinterpret_cast<const std::byte*>(made.words.data()), bits, std::ssize(w),
                     codes.data());
        for (std::size_t g = 0; g < w.size(); g += static_cast<std::size_t>(group)) {
          const std::span<const float> values = std::span(w).subspan(g, static_cast<std::size_t>(group));
          const std::vector<std::uint8_t> expected = codes_by_definition(values, bits);
          ASSERT_TRUE(std::ranges::equal(expected, std::span(codes).subspan(g, values.size())))
              << bits << " bits, groups of " << group << ", size " << size;
        }
      }
    }
  }
}

TEST(Affine, ARangeOfRowsIsThatRangeOfTheWhole) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> w(7 * 192);
  for (float& value : w) value = normal(random);
  const AffineMatrix made = quantise_affine(w, 7, 192, 5, 64, DType::kBF16);
  const StoredMatrix matrix = stored(made, "m");
  std::vector<float> whole(w.size());
  dequantise_rows(matrix, 0, 7, whole.data());
  std::vector<float> part(2 * 192);
  dequantise_rows(matrix, 3, 2, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 3 * 192));
  dequantise_rows(matrix, 7, 0, part.data());
}

TEST(Affine, PlainRowsAreWidened) {
  const std::uint16_t bits[] = {0x3F80, 0x4000, 0x4040, 0x4080};
  StoredMatrix matrix;
  matrix.dtype = DType::kBF16;
  matrix.rows = 2;
  matrix.cols = 2;
  matrix.data = reinterpret_cast<const std::byte*>(bits);
  float out[2];
  dequantise_rows(matrix, 1, 1, out);
  EXPECT_EQ(out[0], 3.0F);
  EXPECT_EQ(out[1], 4.0F);
}

TEST(Affine, NotANumberTakesCodeZeroAndSparesItsGroup) {
  std::vector<float> w(32, 1.0F);
  w[0] = 3.0F;
  w[3] = std::numeric_limits<float>::quiet_NaN();
  const AffineMatrix made = quantise_affine(w, 1, 32, 4, 32, DType::kF32);
  std::vector<float> back(32);
  dequantise_rows(stored(made, "m"), 0, 1, back.data());
  EXPECT_EQ((made.words[0] >> 12) & 15U, 0U);
  EXPECT_EQ(back[0], 3.0F);
  EXPECT_NEAR(back[1], 1.0F, 0.1F);
}

}  // namespace
}  // namespace ft::format::affine_test
