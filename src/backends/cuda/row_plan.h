// Where the row matrices of a program lie: one arena, in which a matrix takes the place of those that nobody
// reads any more. The outputs of a linear lie side by side in one matrix, so that one launch computes them. A
// linear whose only reader is an addition right after it writes the sum directly; its output is never stored.
// Owner: an executable. Thread: the engine thread, when a program is compiled.
#pragma once

#include <vector>

#include "backends/cuda/arguments.h"
#include "program/program.h"

namespace ft::cuda {

/// What an instruction reads and writes.
struct Uses {
  std::vector<Row> reads, writes;
};
Uses uses_of(const Instruction& instruction);

/// From a mixture's route to its last instruction, which may read what any of them reads (Mixture).
inline constexpr int kMixtureSpan = 5;

class RowPlan {
 public:
  RowPlan(const Program& program, int max_rows);

  std::int64_t bytes() const { return bytes_; }
  View view(Row row, std::byte* arena) const;
  /// The Add that instruction `index`, a linear, does on the way; null: none.
  const Add* sum_of(int index) const { return sums_[static_cast<std::size_t>(index)]; }
  /// Instruction `index` is an Add that its linear has done.
  bool done(int index) const { return done_[static_cast<std::size_t>(index)]; }
  /// How many instructions read the row.
  int readers(Row row) const { return readers_[static_cast<std::size_t>(row.id)]; }

 private:
  struct Matrix {
    std::int64_t bytes = 0, offset = 0;
    int first = 0, last = 0;  // instructions, both included
  };
  struct Place {
    int matrix = -1;
    int column = 0, stride = 0;
  };
  void find_sums(const Program& program);
  void place(std::vector<Matrix>& matrices);

  std::vector<const Add*> sums_;
  std::vector<bool> done_;
  std::vector<int> readers_;
  std::vector<Place> places_;  // by row id
  std::vector<Matrix> matrices_;
  std::int64_t bytes_ = 0;
};

}  // namespace ft::cuda
