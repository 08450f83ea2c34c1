// The rows of an LM head for the extra ids of a dynamic draft vocabulary (backends/extra_ids.h). They are
// packed again when they change, a block of 16 rows at a time. Owner: the executable; the weight's mapping
// must outlive it. Thread: add() on the engine thread between steps, arrange() on any worker. Cost:
// microseconds for a changed block; arrange() copies the extra columns of a row once. No allocation after
// make(). Errors: formats without a kernel, no memory.
#pragma once

#include "backends/cpu/memory.h"
#include "backends/cpu/pack/pack.h"
#include "backends/extra_ids.h"

namespace ft::cpu {

class ExtraIdHead {
 public:
  /// `max_weight_bits`: see plan_pack.
  Status make(const Logits& op, int max_weight_bits);
  void add(std::span<const std::int32_t> tokens) {
    if (ids_.add(tokens)) pack();
  }

  bool empty() const { return ids_.empty(); }
  std::size_t columns() const { return rows_.size(); }
  const ExtraIdTable& ids() const { return ids_; }
  /// By place; its address never changes.
  const Packed* packed() const { return &packed_; }
  std::int64_t bytes() const { return packed_.bytes(); }
  /// Reorders a row's extra logits from the product's order of places to the order of ids. `scratch`: one
  /// float per extra column.
  void arrange(float* row, float* scratch) const;

 private:
  void pack();

  ExtraIdTable ids_;
  Weight head_;
  std::vector<std::int32_t> rows_;  // of the LM head, by place, as packed
  Packed packed_;
  Memory memory_;
  PackScratch scratch_;
};

}  // namespace ft::cpu
