// The form in which a product reads its rows: floats, 8-bit codes with a scale and a sum for each group, or
// halves with a sum for each group. Only this file computes the bytes of rows and the place of a row among
// others. A backend has one Arithmetic for all products of packed weights.
#pragma once

#include "backends/cuda/arguments.h"
#include "backends/cuda/scratch.h"

namespace ft::cuda {

/// How packed weights are multiplied: with 8-bit codes of the rows, or with halves (`--activations`).
enum class Arithmetic : std::uint8_t { kCodes, kHalves };

struct ActivationFormat {
  enum class Kind {
    kFloats,      // the row matrix itself
    kCodes,       // QuantisedRowsOut: [rows][k] codes, [rows / 8][groups][kScaleFloats] scales and sums
    kHalves,      // the same with halves
    kSplitHalves  // those of a negative QuantisedRowsOut::group
  };
  Kind kind = Kind::kFloats;
  int group = 0;  // of codes
  bool operator==(const ActivationFormat&) const = default;

  /// Bytes in addition to the row matrix, for whole columns of eight rows of `cols` numbers.
  std::int64_t code_bytes(std::int64_t rows, std::int64_t cols) const {
    return kind == Kind::kFloats ? 0 : round_up(rows, kColumnRows) * cols * input_bytes();
  }
  std::int64_t scale_bytes(std::int64_t rows, std::int64_t cols) const {
    return kind == Kind::kFloats ? 0 : scale_floats_before(round_up(rows, kColumnRows), cols) * 4;
  }
  /// Scales and sums of the rows before `row`, which begins a column.
  std::int64_t scale_floats_before(std::int64_t row, std::int64_t cols) const {
    return row / kColumnRows * (cols / group) * kScaleFloats;
  }

  bool halves() const { return kind == Kind::kHalves || kind == Kind::kSplitHalves; }
  /// Of a number of a row, without scales and sums.
  int input_bytes() const { return halves() ? 2 : 1; }
  /// QuantisedRowsOut::group
  int written_group() const { return kind == Kind::kSplitHalves ? -group : group; }

  static constexpr int kColumnRows = 8;  // of the matrix instruction
};

constexpr ActivationFormat codes_in_groups(int group) { return {ActivationFormat::Kind::kCodes, group}; }

/// A row matrix that memory holds in another format than its own.
struct HeldRow {
  int id = -1;  // Row::id; -1: none
  ActivationFormat format;
  bool operator==(const HeldRow&) const = default;
};

/// Memory for rows in one format; the code that makes launches knows its current contents.
struct ActivationMemory {
  SharedMemory codes;
  Memory scales;

  bool empty() const { return codes->empty() || scales.empty(); }
  /// Rows of k codes or halves from the beginning.
  QuantisedRowsOut rows(int k, const ActivationFormat& format) const {
    return {codes->at<signed char>(), scales.at<float>(), k, format.written_group()};
  }
};

}  // namespace ft::cuda
