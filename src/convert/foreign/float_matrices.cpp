#include "convert/foreign/float_matrices.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "format/block_floats.h"
#include "format/small_float.h"

namespace ft::convert {
namespace {

using format::DType;
using format::QuantMode;

std::uint8_t byte_at(const std::byte* bytes, std::int64_t index) {
  return std::to_integer<std::uint8_t>(bytes[index]);
}

class Fp8Matrix final : public format::MatrixSource {
 public:
  explicit Fp8Matrix(const Fp8Layout& layout)
      : format::MatrixSource(layout.rows, layout.cols, DType::kBF16),
        layout_(layout),
        powers_(scales_are_powers()) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t col = 0; col < cols(); ++col) {
        *out++ = format::e4m3_to_float(byte_at(layout_.codes, row * cols() + col)) * scale(row, col);
      }
    }
  }

  std::optional<format::CodeFormat> codes() const override {
    if (!powers_ || cols() % 32 != 0) return std::nullopt;
    return format::CodeFormat{format::usual_quantisation(QuantMode::kMxfp8), DType::kU8, true};
  }

  std::optional<format::Quantisation> nearest() const override {
    return format::Quantisation{QuantMode::kAffine, 8, 64};
  }

  void read_codes(std::int64_t first, std::int64_t count, const format::CodeRows& out) const override {
    std::memcpy(out.codes, layout_.codes + first * cols(), static_cast<std::size_t>(count * cols()));
    std::byte* scales = out.scales;
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t col = 0; col < cols(); col += 32) {
        *scales++ = static_cast<std::byte>(std::bit_cast<std::uint32_t>(scale(row, col)) >> 23);
      }
    }
  }

 private:
  std::int64_t blocks_across() const { return (cols() + layout_.block_cols - 1) / layout_.block_cols; }

  float scale(std::int64_t row, std::int64_t col) const {
    const std::int64_t block = row / layout_.block_rows * blocks_across() + col / layout_.block_cols;
    return format::load_float(layout_.scales, layout_.scale_type, static_cast<std::size_t>(block));
  }

  bool scales_are_powers() const {
    if (layout_.block_cols % 32 != 0 && layout_.block_cols < cols()) return false;
    const std::int64_t down = (rows() + layout_.block_rows - 1) / layout_.block_rows;
    for (std::int64_t i = 0; i < down * blocks_across(); ++i) {
      const float value = format::load_float(layout_.scales, layout_.scale_type, static_cast<std::size_t>(i));
      if (!std::isnormal(value) || (std::bit_cast<std::uint32_t>(value) & 0x807FFFFFU) != 0) return false;
    }
    return true;
  }

  Fp8Layout layout_;
  bool powers_;
};

class Nvfp4Matrix final : public format::MatrixSource {
 public:
  explicit Nvfp4Matrix(const Nvfp4Layout& layout)
      : format::MatrixSource(layout.rows, layout.cols, DType::kBF16),
        layout_(layout),
        folds_(factor_folds()) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t col = 0; col < cols(); ++col) {
        const std::uint8_t pair = byte_at(layout_.codes, row * (cols() / 2) + col / 2);
        const auto code = static_cast<std::uint8_t>(pair >> (col % 2 * 4) & 15);
        *out++ = format::e2m1_to_float(code) * scale(row * (cols() / 16) + col / 16);
      }
    }
  }

  std::optional<format::CodeFormat> codes() const override {
    if (!folds_) return std::nullopt;
    return format::CodeFormat{format::usual_quantisation(QuantMode::kNvfp4), DType::kU8, true};
  }

  std::optional<format::Quantisation> nearest() const override {
    return format::Quantisation{QuantMode::kAffine, 8, 32};
  }

  void read_codes(std::int64_t first, std::int64_t count, const format::CodeRows& out) const override {
    std::memcpy(out.codes, layout_.codes + first * (cols() / 2),
                static_cast<std::size_t>(count * cols() / 2));
    for (std::int64_t i = 0; i < count * (cols() / 16); ++i) {
      out.scales[i] = static_cast<std::byte>(format::float_to_e4m3(scale(first * (cols() / 16) + i)));
    }
  }

 private:
  float scale(std::int64_t index) const {
    const float value = format::e4m3_to_float(byte_at(layout_.scales, index));
    return layout_.divides ? value / layout_.factor : value * layout_.factor;
  }

  bool factor_folds() const {
    if (layout_.factor == 1) return true;
    for (std::int64_t i = 0; i < rows() * (cols() / 16); ++i) {
      const float value = scale(i);
      if (format::e4m3_to_float(format::float_to_e4m3(value)) != value) return false;
    }
    return true;
  }

  Nvfp4Layout layout_;
  bool folds_;
};

}  // namespace

format::MatrixPointer fp8_matrix(const Fp8Layout& layout) { return std::make_shared<Fp8Matrix>(layout); }
format::MatrixPointer nvfp4_matrix(const Nvfp4Layout& layout) {
  return std::make_shared<Nvfp4Matrix>(layout);
}

}  // namespace ft::convert
