// PinnedRows: the bytes of some rows of a weight in its own format: pointers into the file, or rows that a
// RowSource makes in the memory of this object. Backends pack from it. Owner: one worker. Cost: at() makes
// the rows of a weight that has a source, else it only computes addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/weight.h"

namespace ft {

class PinnedRows {
 public:
  /// Room for `rows` rows of `weight`. Allocates, so it comes before workers, which must not throw.
  void fit(const Weight& weight, std::int64_t rows);
  /// Rows [first, first + count) as a weight without a name, at most as many as fit() had room for. Valid
  /// until the next call. Allocates nothing.
  Weight at(const Weight& weight, std::int64_t first, std::int64_t count);
  /// Puts row `row` into place `place`: for rows that do not follow each other. Only for a weight with a
  /// source.
  void put(const Weight& weight, std::int64_t row, std::int64_t place);
  /// The rows that put() collected, as a weight of `count` rows.
  Weight collected(const Weight& weight, std::int64_t count) const;

 private:
  std::vector<std::byte> data_, scales_, biases_;
};

/// Bytes of a row's data, and of its scales (as many are of its biases, if it has them).
std::int64_t row_data_bytes(const Weight& weight);
std::int64_t row_scale_bytes(const Weight& weight);

}  // namespace ft
