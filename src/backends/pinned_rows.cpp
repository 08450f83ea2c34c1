#include "backends/pinned_rows.h"

#include <algorithm>

#include "base/assert.h"
#include "program/row_source.h"

namespace ft {
namespace {

Weight like(const Weight& weight, std::int64_t rows) {
  Weight part;  // without the name, which would allocate
  part.format = weight.format, part.rows = rows, part.cols = weight.cols;
  part.bits = weight.bits, part.group = weight.group;
  part.scale_format = weight.scale_format, part.offset = weight.offset;
  return part;
}

}  // namespace

std::int64_t row_data_bytes(const Weight& weight) { return weight.cols * weight.stored_bits() / 8; }

std::int64_t row_scale_bytes(const Weight& weight) {
  return weight.quantised() ? weight.cols / weight.group * element_bytes(weight.scale_format) : 0;
}

void PinnedRows::fit(const Weight& weight, std::int64_t rows) {
  if (weight.from == nullptr) return;
  const auto room = [](std::vector<std::byte>& bytes, std::int64_t wanted) {
    bytes.resize(std::max(bytes.size(), static_cast<std::size_t>(wanted)));
  };
  room(data_, rows * row_data_bytes(weight));
  room(scales_, rows * row_scale_bytes(weight));
  if (weight.format == Format::kAffine) room(biases_, rows * row_scale_bytes(weight));
}

Weight PinnedRows::at(const Weight& weight, std::int64_t first, std::int64_t count) {
  const std::int64_t scale_bytes = row_scale_bytes(weight);
  if (weight.from == nullptr) {
    Weight part = like(weight, count);
    part.data = weight.data + first * row_data_bytes(weight);
    if (weight.scales != nullptr) part.scales = weight.scales + first * scale_bytes;
    if (weight.biases != nullptr) part.biases = weight.biases + first * scale_bytes;
    return part;
  }
  FT_ASSERT(count * row_data_bytes(weight) <= std::ssize(data_));
  weight.from->copy(
      weight.from_row + first, count,
      {data_.data(), scales_.data(), weight.format == Format::kAffine ? biases_.data() : nullptr});
  return collected(weight, count);
}

void PinnedRows::put(const Weight& weight, std::int64_t row, std::int64_t place) {
  const std::int64_t scale_bytes = row_scale_bytes(weight);
  weight.from->copy(weight.from_row + row, 1,
                    {data_.data() + place * row_data_bytes(weight), scales_.data() + place * scale_bytes,
                     weight.format == Format::kAffine ? biases_.data() + place * scale_bytes : nullptr});
}

Weight PinnedRows::collected(const Weight& weight, std::int64_t count) const {
  Weight part = like(weight, count);
  part.data = data_.data();
  if (weight.quantised()) part.scales = scales_.data();
  if (weight.format == Format::kAffine) part.biases = biases_.data();
  return part;
}

}  // namespace ft
