// For tests: a weight whose rows a RowSource makes, equal to a stored one.
#pragma once

#include <cstring>
#include <memory>

#include "backends/pinned_rows.h"
#include "backends/weight_rows.h"
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

/// The same values and bytes as `stored`, which must outlive it.
inline Weight with_source(const Weight& stored) {
  Weight made = stored;
  made.from = std::make_shared<CopiedRows>(stored);
  made.data = made.scales = made.biases = nullptr;
  return made;
}

}  // namespace ft
