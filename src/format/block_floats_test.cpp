#include "format/block_floats.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <vector>

#include "base/mapped_file.h"
#include "format/affine.h"
#include "format/half.h"
#include "format/safetensors.h"
#include "format/small_float.h"

namespace ft::format::block_floats_test {
namespace {

/// MLX's codes of odd rows: tools/make_odd_quant_golden.py.
class OddRows : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    Result<MappedFile> file = MappedFile::open("tests/golden/quant/odd.safetensors");
    ASSERT_TRUE(file.ok()) << file.error().message;
    file_ = std::move(*file);
    Result<Safetensors> parsed = parse_safetensors(file_.bytes(), "odd.safetensors");
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    for (TensorView& tensor : parsed->tensors) tensors_.emplace(tensor.name, tensor);
    const TensorView& input = tensors_.at("input." + type());
    values_.resize(input.bytes.size() / dtype_bytes(input.dtype));
    load_floats(input.bytes.data(), input.dtype, 0, values_.size(), values_.data());
  }

  std::string type() const { return std::string(dtype_name(GetParam())); }

  /// Equal bytes; the first difference is named.
  void expect_bytes(const std::string& name, const void* found, std::size_t bytes) const {
    const TensorView& wanted = tensors_.at(type() + "." + name);
    ASSERT_EQ(wanted.bytes.size(), bytes) << name;
    const auto* own = static_cast<const std::byte*>(found);
    for (std::size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(wanted.bytes[i], own[i]) << type() << '.' << name << " byte " << i;
    }
  }

  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
  std::vector<float> values_;
};

TEST_P(OddRows, BecomeTheBlockFloatsOfMlxBitForBit) {
  for (const QuantMode mode : {QuantMode::kMxfp4, QuantMode::kMxfp8, QuantMode::kNvfp4}) {
    const Quantisation q = usual_quantisation(mode);
    const std::size_t groups = values_.size() / static_cast<std::size_t>(q.group);
    std::vector<std::uint32_t> words(values_.size() * static_cast<std::size_t>(q.bits) / 32);
    std::vector<std::byte> scales(groups);
    quantise_blocks(values_.data(), static_cast<std::int64_t>(groups), mode, GetParam(), words.data(),
                    scales.data());
    const std::string name(quant_mode_name(mode));
    expect_bytes(name + ".scales", scales.data(), scales.size());
    expect_bytes(name + ".weight", words.data(), words.size() * 4);
  }
}

TEST_P(OddRows, BecomeTheAffineCodesOfMlxBitForBit) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      const AffineMatrix made = quantise_affine(values_, static_cast<std::int64_t>(values_.size()) / 128, 128,
                                                bits, group, GetParam());
      const std::string name = "affine." + std::to_string(bits) + "." + std::to_string(group);
      expect_bytes(name + ".weight", made.words.data(), made.words.size() * 4);
      expect_bytes(name + ".scales", made.scales.data(), made.scales.size());
      expect_bytes(name + ".biases", made.biases.data(), made.biases.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Quantise, OddRows, testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

float in_type(DType type, float value) {
  if (type == DType::kF32) return value;
  return type == DType::kBF16 ? bf16_to_float(float_to_bf16(value)) : f16_to_float(float_to_f16(value));
}

/// The first nearest of the sixteen values, magnitudes ascending.
std::uint8_t e2m1_by_definition(float ratio) {
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 8; ++code) {
    if (std::fabs(std::fabs(ratio) - e2m1_to_float(code)) < std::fabs(std::fabs(ratio) - e2m1_to_float(best)))
      best = code;
  }
  return static_cast<std::uint8_t>(ratio < 0 && best > 0 ? best | 8 : best);
}

/// The codes of values whose groups have the scales that were written.
std::vector<std::uint8_t> codes_by_definition(const std::vector<float>& values, QuantMode mode, DType type,
                                              const std::vector<std::byte>& scales) {
  const Quantisation q = usual_quantisation(mode);
  std::vector<std::uint8_t> codes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto byte = std::to_integer<std::uint8_t>(scales[i / static_cast<std::size_t>(q.group)]);
    const float step = mode == QuantMode::kNvfp4 ? e4m3_to_float(byte) : e8m0_to_float(byte);
    const float ratio = in_type(type, values[i] / step);
    codes.push_back(mode == QuantMode::kMxfp8 ? float_to_e4m3(ratio) : e2m1_by_definition(ratio));
  }
  return codes;
}

TEST(BlockFloats, GroupsOfEverySizeOfValuesHaveTheCodesOfTheDefinition) {
  std::mt19937 random(12);
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const float size : {0.002F, 0.02F, 1.0F, 30.0F, 900.0F}) {
      std::normal_distribution<float> normal(0, size);
      std::vector<float> values(std::size_t{64} * 96);
      for (float& value : values) value = in_type(type, normal(random));
      for (const QuantMode mode : {QuantMode::kMxfp4, QuantMode::kMxfp8, QuantMode::kNvfp4}) {
        const Quantisation q = usual_quantisation(mode);
        const std::size_t groups = values.size() / static_cast<std::size_t>(q.group);
        std::vector<std::uint32_t> words(values.size() * static_cast<std::size_t>(q.bits) / 32);
        std::vector<std::byte> scales(groups);
        quantise_blocks(values.data(), static_cast<std::int64_t>(groups), mode, type, words.data(),
                        scales.data());
        std::vector<std::uint8_t> codes(values.size());
        unpack_codes(reinterpret_cast<const std::byte*>(words.data()), q.bits, std::ssize(values),
                     codes.data());
        const auto zero_step = [&](std::size_t i) {  // nothing to compare
          return mode == QuantMode::kNvfp4 && scales[i / 16] == std::byte{0};
        };
        const std::vector<std::uint8_t> expected = codes_by_definition(values, mode, type, scales);
        for (std::size_t i = 0; i < codes.size(); ++i) {
          ASSERT_TRUE(codes[i] == expected[i] || zero_step(i))
              << quant_mode_name(mode) << ' ' << dtype_name(type) << " size " << size << " at " << i;
        }
      }
    }
  }
}

TEST(E4m3, EveryCodeComesBack) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;  // NaN by definition
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(float_to_e4m3(e4m3_to_float(byte)), byte);
  }
}

}  // namespace
}  // namespace ft::format::block_floats_test
