// Random weights in every stored format, from a seed: for tests and benchmarks of backends, which need shapes
// and not meaning. Owner: the store owns the bytes; weights point into it.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "program/weight.h"

namespace ft {

class RandomWeights {
 public:
  explicit RandomWeights(std::uint64_t seed) : state_(seed * 2 + 1) {}

  /// Values of about 1 / sqrt(cols), so rows of unit size keep their size.
  Weight affine(std::int64_t rows, std::int64_t cols, int bits, int group, Format scales = Format::kBf16) {
    Weight weight = shaped(Format::kAffine, rows, cols);
    weight.bits = bits;
    weight.group = group;
    weight.scale_format = scales;
    std::vector<std::byte>& codes = bytes_.emplace_back(static_cast<std::size_t>(rows * cols * bits / 8));
    for (std::byte& byte : codes) byte = static_cast<std::byte>(next() >> 56);
    const float top = static_cast<float>((1 << bits) - 1);
    std::vector<float> scale(static_cast<std::size_t>(rows * cols / group));
    std::vector<float> bias(scale.size());
    for (std::size_t i = 0; i < scale.size(); ++i) {
      scale[i] =
          (uniform() < 0 ? -1.0F : 1.0F) * (3.0F + uniform()) / (top * std::sqrt(static_cast<float>(cols)));
      bias[i] = -scale[i] * top * (0.5F + 0.1F * uniform());
    }
    weight.data = codes.data();
    weight.scales = store(scales, scale);
    weight.biases = store(scales, bias);
    return weight;
  }

  /// mxfp4, mxfp8 or nvfp4: every code, and scales of a few sizes, including subnormal ones for nvfp4.
  Weight block_float(Format format, std::int64_t rows, std::int64_t cols) {
    Weight weight = shaped(format, rows, cols);
    weight.bits = format == Format::kMxfp8 ? 8 : 4;
    weight.group = format == Format::kNvfp4 ? 16 : 32;
    weight.scale_format = format == Format::kNvfp4 ? Format::kE4m3 : Format::kE8m0;
    std::vector<std::byte>& codes =
        bytes_.emplace_back(static_cast<std::size_t>(rows * cols * weight.bits / 8));
    for (std::byte& byte : codes) {
      byte = static_cast<std::byte>(next() >> 56);
      if (format == Format::kMxfp8 && (byte & std::byte{0x7F}) == std::byte{0x7F})
        byte ^= std::byte{1};  // NaN
    }
    weight.data = codes.data();
    // Codes reach 6 or 448; the scale is a power of two below the size asked for.
    const int exponent =
        -std::ilogb(std::sqrt(static_cast<float>(cols))) - (format == Format::kMxfp8 ? 8 : 2);
    std::vector<std::byte>& scales =
        bytes_.emplace_back(static_cast<std::size_t>(rows * cols / weight.group));
    for (std::byte& byte : scales) {
      const int size = exponent + below(3) - 1;
      byte = static_cast<std::byte>(format != Format::kNvfp4 ? size + 127
                                    : size < -6              ? 1 + below(7)
                                                             : (size + 7) * 8 + below(8));
    }
    weight.scales = scales.data();
    return weight;
  }

  Weight plain(Format format, std::int64_t rows, std::int64_t cols, float size, float offset = 0) {
    Weight weight = shaped(format, rows, cols);
    weight.offset = offset;
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (float& value : values) value = size * uniform();
    weight.data = store(format, values);
    return weight;
  }

  /// In (-1, 1).
  float uniform() { return static_cast<float>(static_cast<std::int32_t>(next() >> 32)) * 0x1p-31F; }
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;  // splitmix64
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  int below(int limit) { return static_cast<int>(next() % static_cast<std::uint64_t>(limit)); }

 private:
  Weight shaped(Format format, std::int64_t rows, std::int64_t cols) {
    Weight weight;
    weight.name = "random" + std::to_string(count_++);
    weight.format = format;
    weight.rows = rows;
    weight.cols = cols;
    return weight;
  }

  const std::byte* store(Format format, const std::vector<float>& values) {
    const auto element = static_cast<std::size_t>(element_bytes(format));
    std::vector<std::byte>& out = bytes_.emplace_back(values.size() * element);
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto bits = std::bit_cast<std::uint32_t>(values[i]);
      if (format == Format::kBf16) bits >>= 16;
      if (format == Format::kF16) {  // truncated; magnitudes below float16's normal range become zero
        const int exponent = static_cast<int>((bits >> 23) & 255U) - 112;
        const std::uint32_t sign = (bits >> 16) & 0x8000U;
        bits =
            exponent <= 0 ? sign : sign | static_cast<std::uint32_t>(exponent) << 10 | ((bits >> 13) & 1023U);
      }
      std::memcpy(out.data() + i * element, &bits, element);
    }
    return out.data();
  }

  std::uint64_t state_;
  int count_ = 0;
  std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace ft
