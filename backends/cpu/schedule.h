// Where the workers of a short step must meet. Barriers cost a few microseconds each and most instructions do
// not need one: a worker that adds, gates or convolves the columns that it computed itself waits for nobody,
// and a norm of a few rows is done sooner by every worker for itself than shared. Steps of more than kFewRows
// rows share everything and meet behind every operation. Neither changes an element's arithmetic.
// Owner: the executable. Thread: read-only after construction. Cost: O(instructions). Errors: none.
#pragma once

#include <vector>

#include "program/program.h"

namespace ft::cpu {

inline constexpr int kFewRows = 16;  // rows up to which workers copy work instead of waiting for it

/// How the workers divide a matrix in a short step.
struct Split {
  enum class Kind {
    kWhole,    // written by anybody; read: every element by every worker
    kColumns,  // share_of(width, kLanes)
    kHeads,    // share_of(heads, 1) of equal parts of a row
    kOwn       // every worker has a copy of its own
  };
  Kind kind = Kind::kWhole;
  int heads = 0;

  bool operator==(const Split&) const = default;
};

/// Whether sharing `heads` out whole keeps all of `workers` about equally busy.
constexpr bool heads_divide(int heads, int workers) { return heads % workers == 0 || heads >= 4 * workers; }

class Schedule {
 public:
  Schedule(const Program& program, int workers);

  /// Instructions between two meetings have the same number, ascending from 0.
  int group(int instruction) const { return groups_[static_cast<std::size_t>(instruction)]; }
  /// Whether row matrix `id` has one copy a worker.
  bool own(int id) const { return splits_[static_cast<std::size_t>(id)].kind == Split::Kind::kOwn; }

 private:
  std::vector<int> groups_;    // by instruction
  std::vector<Split> splits_;  // by Row::id, how it is written; behind them that of the logits
};

/// The rows that an instruction reads and writes, and how.
struct Operands {
  struct Operand {
    Row row;
    Split split;
  };
  std::vector<Operand> reads, writes;
};
/// The logits count as row `program.row_count()`, without a width.
Operands operands(const Program& program, const Instruction& instruction, int workers);

}  // namespace ft::cpu
