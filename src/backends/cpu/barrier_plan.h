// The barrier plan: where the workers of a small batch must wait for each other. A barrier costs a few
// microseconds and most instructions need none. A worker that adds, gates or convolves its own columns does
// not wait. A norm of a few rows is faster if every worker computes it for itself. Steps of more than
// kSmallBatchRows rows split everything and have a barrier after every operation. Neither changes an
// element's arithmetic. A step may have any number of workers up to the pool's, and some barriers depend on
// that number. Owner: the executable. Cost: O(instructions) for each of the few different plans.
#pragma once

#include <vector>

#include "program/program.h"

namespace ft::cpu {

inline constexpr int kSmallBatchRows = 16;  // maximum rows of a small batch

/// How the workers divide a matrix in a small batch.
struct Split {
  enum class Kind {
    kWhole,      // written by any worker; read: every worker needs every element
    kColumns,    // partition(width, kLanes)
    kHeads,      // partition(heads, 1) of equal parts of a row
    kReplicated  // every worker has its own copy
  };
  Kind kind = Kind::kWhole;
  int heads = 0;

  bool operator==(const Split&) const = default;
};

/// True if whole heads keep all of `workers` about equally busy.
constexpr bool heads_divide(int heads, int workers) { return heads % workers == 0 || heads >= 4 * workers; }

class BarrierPlan {
 public:
  /// For 1 to `workers` workers.
  BarrierPlan(const Program& program, int workers);

  /// The phase of an instruction, ascending from 0; there is a barrier between two phases.
  int phase(int instruction, int workers) const {
    return phases_[plan_of(workers)][static_cast<std::size_t>(instruction)];
  }
  /// The phases between which there is a barrier whatever the number of workers.
  int fixed_phase(int instruction) const { return fixed_phases_[static_cast<std::size_t>(instruction)]; }
  /// Number of different plans, and the index of the plan for a number of workers.
  std::size_t plans() const { return phases_.size(); }
  std::size_t plan_of(int workers) const { return plan_of_[static_cast<std::size_t>(workers)]; }
  /// True if row matrix `id` has one copy per worker.
  bool replicated(int id) const {
    return splits_[static_cast<std::size_t>(id)].kind == Split::Kind::kReplicated;
  }

 private:
  void add(const Program& program, int workers);
  void find_fixed_phases();

  std::vector<std::vector<int>> phases_;  // by plan and instruction
  std::vector<std::size_t> plan_of_;      // by number of workers
  std::vector<int> fixed_phases_;         // by instruction
  std::vector<Split> splits_;             // by Row::id, how it is written; the logits' split is last
};

/// The rows that an instruction reads and writes, and their splits.
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
