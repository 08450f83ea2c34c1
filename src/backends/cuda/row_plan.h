// The places of a program's row matrices: one arena, in which a matrix takes the place of earlier ones that
// are no longer read. The outputs of a linear are side by side in one matrix, so one launch computes them. A
// linear whose only reader is an addition right after it writes the sum directly; its output is never stored.
// The same holds for experts with an addition, and for a linear of plain weights whose outputs are only read
// by biases right after it. A norm, an addition and a factor after it, and another norm are one launch
// (NormChain). Owner: an executable. Thread: the engine thread, when a program is compiled.
#pragma once

#include <vector>

#include "backends/cuda/arguments.h"
#include "program/program.h"

namespace ft::cuda {

/// Rows that an instruction reads and writes.
struct Uses {
  std::vector<Row> reads, writes;
};
Uses uses_of(const Instruction& instruction);
/// The other row of a sum.
Row other_of(const Add& sum, Row one);

/// Instructions from a mixture's route to its last one, which may read every row that they read (Mixture).
inline constexpr int kMixtureSpan = 5;

/// Instructions that follow each other, each the only reader of the row before it.
struct NormChain {
  const Norm* norm = nullptr;
  const Add* sum = nullptr;      // null: nothing is added
  const Scale* scale = nullptr;  // null: the factor is 1
  const Norm* second = nullptr;  // of a row that others read too; null: there is none
  /// The row that the chain writes before its second norm.
  Row sum_row() const { return scale != nullptr ? scale->out : sum->out; }
};

class RowPlan {
 public:
  RowPlan(const Program& program, int max_rows);

  std::int64_t bytes() const { return bytes_; }
  View view(Row row, std::byte* arena) const;
  /// The Add that instruction `index`, a linear or experts, includes; null: none.
  const Add* sum_of(int index) const { return sums_[static_cast<std::size_t>(index)]; }
  /// The Bias of each output of instruction `index`, a linear, that it includes; empty: none.
  const std::vector<const Bias*>& biases_of(int index) const {
    return biases_[static_cast<std::size_t>(index)];
  }
  /// The chain that ends with instruction `index` and runs there; null: none does.
  const NormChain* chain_at(int index) const;
  /// Another instruction includes instruction `index`.
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
  void count_readers(const Program& program);
  void find_sums(const Program& program);
  void find_biases(const Program& program);
  void find_chains(const Program& program);
  std::vector<Row> writes_of(const Program& program, int index) const;
  void place(std::vector<Matrix>& matrices);

  std::vector<const Add*> sums_;
  std::vector<std::vector<const Bias*>> biases_;
  std::vector<NormChain> chains_;  // by the instruction that ends them
  std::vector<int> done_by_;       // by instruction: the last one that reads its inputs
  std::vector<bool> done_;
  std::vector<int> readers_;
  std::vector<Place> places_;  // by row id
  std::vector<Matrix> matrices_;
  std::int64_t bytes_ = 0;
};

}  // namespace ft::cuda
