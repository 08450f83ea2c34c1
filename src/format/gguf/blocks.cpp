#include "format/gguf/blocks.h"

#include <cstring>
#include <utility>

#include "base/system.h"
#include "format/gguf/block_codes.h"
#include "format/half.h"
#include "format/small_float.h"

namespace ft::format {
namespace {

// Types that exist but are not read: for the message.
constexpr std::pair<std::uint32_t, std::string_view> kRefused[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {29, "IQ1_M"},
    {34, "TQ1_0"}, {35, "TQ2_0"}, {40, "NVFP4"}};

class GroupMatrix final : public MatrixSource {
 public:
  GroupMatrix(const BlockType& type, std::int64_t rows, std::int64_t cols, const std::byte* bytes, bool wide)
      : MatrixSource(rows, cols, DType::kF16), type_(type), bytes_(bytes), wide_(wide && !type.exact_half) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for_groups(first, count, [&](const std::uint8_t* group, float scale, float bias) {
      for (int i = 0; i < type_.group; ++i) *out++ = static_cast<float>(group[i]) * scale + bias;
    });
  }

  std::optional<CodeFormat> codes() const override {
    CodeFormat format{{QuantMode::kAffine, type_.bits, type_.group},
                      wide_ ? DType::kF32 : DType::kF16,
                      wide_ || type_.exact_half};
    if (wide_) format.factored = {kSuperBlock, type_.zero};
    format.apart = true;
    return format;
  }

  std::optional<Quantisation> nearest() const override {
    return Quantisation{QuantMode::kAffine, 8, kGgufGroup};
  }

  void read_ahead(std::int64_t first, std::int64_t count) const override {
    const std::int64_t row = blocks_of_row() * type_.bytes;
    ft::read_ahead(bytes_ + first * row, static_cast<std::size_t>(count * row));
  }

  void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const override {
    CodeRows at = out;
    for_groups(first, count, [&](const std::uint8_t* group, float scale, float bias) {
      pack_codes(group, type_.bits, type_.group, at.codes);
      at.codes += static_cast<std::size_t>(type_.bits * type_.group) / 8;
      store(scale, at.scales);
      store(bias, at.biases);
    });
  }

  void read_apart(std::int64_t first, std::int64_t count, const ApartRows& out) const override {
    const std::int64_t blocks = count * blocks_of_row();
    const std::byte* block = bytes_ + first * blocks_of_row() * type_.bytes;
    type_.codes(block, blocks, reinterpret_cast<std::uint8_t*>(out.codes));
    ApartRows at = out;
    for (std::int64_t i = 0; i < blocks; ++i, block += type_.bytes) {
      BlockScales scales;
      type_.scales(block, scales);
      at.factors == nullptr ? store_scales(scales, at) : store_factors(scales, at);
    }
  }

 private:
  std::int64_t blocks_of_row() const { return cols() / type_.elements; }
  int groups_of_block() const { return type_.elements / type_.group; }

  float bias_of(const BlockScales& block, float scale, int group) const {
    return type_.zero != 0 ? static_cast<float>(-type_.zero) * scale
                           : f16_to_float(block.bias_factor) * static_cast<float>(block.biases[group]);
  }

  void store(float value, std::byte*& at) const {
    if (wide_) {
      std::memcpy(at, &value, sizeof value);
    } else {
      const std::uint16_t half = float_to_f16(value);
      std::memcpy(at, &half, sizeof half);
    }
    at += wide_ ? sizeof(float) : sizeof(std::uint16_t);
  }

  void store_scales(const BlockScales& block, ApartRows& at) const {
    const float factor = f16_to_float(block.factor);
    for (int g = 0; g < groups_of_block(); ++g) {
      const float scale = factor * static_cast<float>(block.scales[g]);
      store(scale, at.scales);
      store(bias_of(block, scale, g), at.biases);
    }
  }

  void store_factors(const BlockScales& block, ApartRows& at) const {
    if (type_.group == kSuperBlock / kSuperBlockGroups) {
      put_factors<kSuperBlockGroups>(block, at);
    } else {
      put_factors<kSuperBlock / kGgufGroup>(block, at);
    }
  }

  /// The number of groups is a constant, so that each copy is a move of one register.
  template <int kGroups>
  void put_factors(const BlockScales& block, ApartRows& at) const {
    std::memcpy(at.factors, &block.factor, sizeof block.factor);
    std::memcpy(at.scales, block.scales, kGroups);
    at.factors += sizeof block.factor, at.scales += kGroups;
    if (type_.zero != 0) return;
    std::memcpy(at.factors, &block.bias_factor, sizeof block.bias_factor);
    std::memcpy(at.biases, block.biases, kGroups);
    at.factors += sizeof block.bias_factor, at.biases += kGroups;
  }

  /// act(codes, scale, bias) of each group.
  template <class Act>
  void for_groups(std::int64_t first, std::int64_t count, Act act) const {
    std::uint8_t codes[kSuperBlock];
    const std::byte* block = bytes_ + first * blocks_of_row() * type_.bytes;
    for (std::int64_t i = 0; i < count * blocks_of_row(); ++i, block += type_.bytes) {
      BlockScales scales;
      type_.codes(block, 1, codes);
      type_.scales(block, scales);
      const float factor = f16_to_float(scales.factor);
      for (int g = 0; g < groups_of_block(); ++g) {
        const float scale = factor * static_cast<float>(scales.scales[g]);
        act(codes + g * type_.group, scale, bias_of(scales, scale, g));
      }
    }
  }

  const BlockType& type_;
  const std::byte* bytes_;
  bool wide_;
};

/// 17 bytes a block: the scale, then nibbles j and j + 16.
class Mxfp4Matrix final : public MatrixSource {
 public:
  Mxfp4Matrix(std::int64_t rows, std::int64_t cols, const std::byte* bytes)
      : MatrixSource(rows, cols, DType::kBF16), bytes_(bytes) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for_blocks(first, count, [&](std::byte scale, const std::uint8_t* codes) {
      const float step = e8m0_to_float(std::to_integer<std::uint8_t>(scale));
      for (int j = 0; j < kGgufGroup; ++j) *out++ = e2m1_to_float(codes[j]) * step;
    });
  }

  std::optional<CodeFormat> codes() const override {
    CodeFormat format{usual_quantisation(QuantMode::kMxfp4), DType::kU8, true};
    format.apart = true;
    return format;
  }

  void read_ahead(std::int64_t first, std::int64_t count) const override {
    const std::int64_t row = cols() / kGgufGroup * kBlockBytes;
    ft::read_ahead(bytes_ + first * row, static_cast<std::size_t>(count * row));
  }

  void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const override {
    CodeRows at = out;
    for_blocks(first, count, [&](std::byte scale, const std::uint8_t* codes) {
      pack_codes(codes, 4, kGgufGroup, at.codes);
      at.codes += kGgufGroup / 2;
      *at.scales++ = scale;
    });
  }

  void read_apart(std::int64_t first, std::int64_t count, const ApartRows& out) const override {
    ApartRows at = out;
    for_blocks(first, count, [&](std::byte scale, const std::uint8_t* codes) {
      std::memcpy(at.codes, codes, kGgufGroup);
      at.codes += kGgufGroup;
      *at.scales++ = scale;
    });
  }

 private:
  static constexpr int kBlockBytes = 17;

  template <class Act>
  void for_blocks(std::int64_t first, std::int64_t count, Act act) const {
    const std::int64_t blocks = cols() / kGgufGroup;
    std::uint8_t codes[kGgufGroup];
    const std::byte* block = bytes_ + first * blocks * kBlockBytes;
    for (std::int64_t i = 0; i < count * blocks; ++i, block += kBlockBytes) {
      mxfp4_codes(block, 1, codes);
      act(*block, codes);
    }
  }

  const std::byte* bytes_;
};

}  // namespace

std::string gguf_type_name(std::uint32_t id) {
  if (const BlockType* type = find_block_type(id); type != nullptr) return std::string(type->name);
  for (const auto& [number, name] : kRefused) {
    if (number == id) return std::string(name);
  }
  return "type " + std::to_string(id);
}

Result<std::uint64_t> gguf_bytes(std::uint32_t id, std::span<const std::int64_t> shape,
                                 const std::string& path, const std::string& tensor) {
  const BlockType* type = find_block_type(id);
  if (type == nullptr) {
    return tensor_error(Code::kUnsupported, path, tensor,
                        "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL or MXFP4",
                        gguf_type_name(id), "download a file of another type, such as Q4_K_M or Q8_0");
  }
  const std::int64_t cols = shape.empty() ? 1 : shape.back();
  std::uint64_t bytes =
      static_cast<std::uint64_t>(cols / type->elements) * static_cast<std::uint64_t>(type->bytes);
  bool fits = cols % type->elements == 0;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i)
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(shape[i]), &bytes);
  if (fits && bytes <= INT64_MAX) return bytes;
  return tensor_error(
      Code::kCorrupt, path, tensor,
      "rows of a multiple of " + std::to_string(type->elements) + " elements, below 2^63 bytes",
      shape_text(shape), "download the file again");
}

MatrixPointer gguf_matrix(std::uint32_t id, std::int64_t rows, std::int64_t cols, const std::byte* bytes,
                          bool float32_scales) {
  const BlockType& type = *find_block_type(id);
  if (type.codes != nullptr) return std::make_shared<GroupMatrix>(type, rows, cols, bytes, float32_scales);
  if (id == kGgufMxfp4) return std::make_shared<Mxfp4Matrix>(rows, cols, bytes);
  TensorView view;
  view.dtype = id == 0 ? DType::kF32 : id == 1 ? DType::kF16 : DType::kBF16;
  view.shape = {rows, cols};
  view.bytes = {bytes, static_cast<std::size_t>(rows * cols) * dtype_bytes(view.dtype)};
  return plain_matrix(view);
}

}  // namespace ft::format
