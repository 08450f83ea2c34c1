// The rows of a head that stand in its spare columns (backends/spare_ids.h), packed anew when they change: a
// block of 16 rows at a time. Owner: the executable; the weight's mapping must outlive it. Thread: add() on
// the engine thread between steps, arrange() on any worker. Cost: microseconds for a block that changes;
// arrange() copies the spare columns of a row once. No allocation after make(). Errors: formats that no
// kernel has, no memory.
#pragma once

#include "backends/cpu/memory.h"
#include "backends/cpu/pack.h"
#include "backends/spare_ids.h"

namespace ft::cpu {

class SpareHead {
 public:
  /// `most_bits`: plan_pack.
  Status make(const Logits& op, int most_bits);
  void add(std::span<const std::int32_t> tokens) {
    if (ids_.add(tokens)) pack();
  }

  bool empty() const { return ids_.empty(); }
  std::size_t columns() const { return rows_.size(); }
  const SpareIds& ids() const { return ids_; }
  /// By place; it stays where it is.
  const Packed* packed() const { return &packed_; }
  std::int64_t bytes() const { return packed_.bytes(); }
  /// Puts a row's spare logits, which the product left in order of places, in order of ids. `scratch`: one
  /// float a spare column.
  void arrange(float* row, float* scratch) const;

 private:
  void pack();

  SpareIds ids_;
  Weight head_;
  std::vector<std::int32_t> rows_;  // of the head, by place, as they are packed
  Packed packed_;
  Memory memory_;
  PackScratch scratch_;
};

}  // namespace ft::cpu
