#include "format/block_floats.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "base/mapped_file.h"
#include "format/affine.h"
#include "format/safetensors.h"
#include "format/small_float.h"

namespace ft::format {
namespace {

/// What MLX makes of odd rows: tools/make_odd_quant_golden.py.
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

TEST(E4m3, EveryCodeComesBack) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;  // NaN by definition
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(float_to_e4m3(e4m3_to_float(byte)), byte);
  }
}

}  // namespace
}  // namespace ft::format
