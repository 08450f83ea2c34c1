// Places of the activations of a step: every Row of a program and every instruction's scratch gets a place in
// one arena. A place is reused after the barrier that follows its last reader. Offsets are in bytes,
// 64-aligned. Owner: the executable. Cost: O(rows^2) once.
#pragma once

#include <vector>

#include "backends/cpu/barrier_plan.h"
#include "program/backend.h"

namespace ft::cpu {

/// Maximum rows of a small batch.
constexpr int small_batch_rows(const CompileOptions& options) {
  return options.max_rows < kSmallBatchRows ? options.max_rows : kSmallBatchRows;
}

class Plan {
 public:
  /// scratch_bytes[i]: memory that instruction i needs while it runs.
  Plan(const Program& program, const BarrierPlan& barriers, const CompileOptions& options, int workers,
       const std::vector<std::int64_t>& scratch_bytes);

  std::int64_t bytes() const { return bytes_; }
  std::int64_t row_offset(int id) const { return rows_[static_cast<std::size_t>(id)].offset; }
  std::int64_t scratch_offset(int instruction) const {
    return scratch_[static_cast<std::size_t>(instruction)].offset;
  }

 private:
  struct Span {
    std::int64_t bytes = 0;
    int first = 0, last = -1;  // fixed phases during which it is needed
    std::int64_t offset = 0;
  };
  void place(std::vector<Span*>& spans);

  std::vector<Span> rows_, scratch_;
  std::int64_t bytes_ = 0;
};

}  // namespace ft::cpu
