// For tests: a weight whose rows a RowSource makes, equal to a stored one.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/pinned_rows.h"
#include "backends/random_weights.h"
#include "backends/weight_rows.h"
#include "format/affine.h"
#include "format/half.h"
#include "program/row_source.h"

namespace ft {

class CopiedRows final : public RowSource {
 public:
  explicit CopiedRows(Weight weight) : weight_(std::move(weight)) { weight_.offset = 0; }

  void copy(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    const auto part = [&](const std::byte* from, std::int64_t row_bytes, std::byte* out) {
      if (out != nullptr && from != nullptr)
        std::memcpy(out, from + first * row_bytes, static_cast<std::size_t>(count * row_bytes));
    };
    part(weight_.data, row_data_bytes(weight_), to.data);
    part(weight_.scales, row_scale_bytes(weight_), to.scales);
    part(weight_.biases, row_scale_bytes(weight_), to.biases);
  }
  void read(std::int64_t first, std::int64_t count, float* out) const override {
    read_rows(weight_, first, count, out);
  }

 private:
  Weight weight_;
};

/// Affine codes whose float32 scales are products (RowSource::factors): of `codes` with new scales.
class FactoredRows final : public RowSource {
 public:
  FactoredRows(const Weight& codes, ScaleFactors factors, RandomWeights& random)
      : stored_(codes), factors_(factors) {
    const std::int64_t groups = codes.rows * codes.cols / codes.group, shared = factors.columns / codes.group;
    float scale_factor = 0, bias_factor = 0;
    // The largest integer differs from factor to factor, and so does its sign.
    int most = 1;
    for (std::int64_t g = 0; g < groups; ++g) {
      if (g % shared == 0) {
        const int exponent = -9 - random.below(12);  // the last ones make subnormal float16
        scale_factor = std::ldexp(static_cast<float>(1024 + random.below(1024)), exponent - 10);
        bias_factor = -std::ldexp(static_cast<float>(1024 + random.below(1024)), exponent - 9);
        if (exponent < -14) scale_factor = bias_factor = std::ldexp(1.0F, -24) * 3;
        if (random.below(9) == 0) scale_factor = -scale_factor;
        if (random.below(9) == 0) scale_factor = 0;
        most = random.below(3) == 0 ? 63 : 1 + random.below(127);
        halves_.push_back(format::float_to_f16(scale_factor));
        if (factors.zero == 0) halves_.push_back(format::float_to_f16(bias_factor));
      }
      integers_.push_back(static_cast<std::int8_t>(random.below(2 * most + 1) - most));
      bias_integers_.push_back(static_cast<std::int8_t>(random.below(64)));
      scales_.push_back(scale_factor * static_cast<float>(integers_.back()));
      biases_.push_back(factors.zero != 0 ? static_cast<float>(-factors.zero) * scales_.back()
                                          : bias_factor * static_cast<float>(bias_integers_.back()));
    }
    stored_.scale_format = Format::kF32;
    stored_.scales = reinterpret_cast<const std::byte*>(scales_.data());
    stored_.biases = reinterpret_cast<const std::byte*>(biases_.data());
  }

  /// The same values with stored scales; valid as long as this object.
  const Weight& stored() const { return stored_; }
  void copy(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    CopiedRows(stored_).copy(first, count, to);
  }
  void read(std::int64_t first, std::int64_t count, float* out) const override {
    read_rows(stored_, first, count, out);
  }
  ScaleFactors factors() const override { return factors_; }
  bool apart() const override { return true; }
  void copy_apart(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    const std::int64_t groups = stored_.cols / stored_.group;
    const std::int64_t halves = stored_.cols / factors_.columns * (factors_.zero != 0 ? 1 : 2);
    for (std::int64_t r = 0; r < count; ++r) {
      format::unpack_codes(stored_.data + (first + r) * row_data_bytes(stored_), stored_.bits, stored_.cols,
                           reinterpret_cast<std::uint8_t*>(to.data) + r * stored_.cols);
    }
    const auto part = [&](const auto& from, std::int64_t each, std::byte* out) {
      std::memcpy(out, from.data() + first * each, static_cast<std::size_t>(count * each) * sizeof(from[0]));
    };
    part(integers_, groups, to.scales);
    part(halves_, halves, to.factors);
    if (factors_.zero == 0) part(bias_integers_, groups, to.biases);
  }

 private:
  Weight stored_;
  ScaleFactors factors_;
  std::vector<float> scales_, biases_;
  std::vector<std::int8_t> integers_, bias_integers_;
  std::vector<std::uint16_t> halves_;
};

/// The weight that `rows` makes.
inline Weight made_by(const std::shared_ptr<const FactoredRows>& rows) {
  Weight made = rows->stored();
  made.from = rows;
  made.data = made.scales = made.biases = nullptr;
  return made;
}

/// The same values and bytes as `stored`, which must outlive it.
inline Weight with_source(const Weight& stored) {
  Weight made = stored;
  made.from = std::make_shared<CopiedRows>(stored);
  made.data = made.scales = made.biases = nullptr;
  return made;
}

}  // namespace ft
