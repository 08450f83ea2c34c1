// The host's Walk (program/instructions.h): from a row of logits to the candidates of its draft. ref and cpu
// run it in their steps, and every backend's walk_candidates() calls it. Cost: one read of the row, and
// candidates * rank products; no allocation once `out` and the scratch have reached their sizes. Thread:
// const, so several may share one Walker with a scratch each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/backend.h"

namespace ft {

struct WalkScratch {
  std::vector<std::int32_t> columns;  // [<= candidates]
  std::vector<float> factors, row;    // [rank]
};

class Walker {
 public:
  explicit Walker(const Walk& op) : op_(op) {}

  void reserve(WalkScratch& scratch, WalkCandidates& out) const;
  /// The columns of the candidates, in ascending order: of ids[c], or of token c without ids. At least
  /// one.
  void choose(std::span<const float> logits, std::span<const std::int32_t> ids,
              std::span<const std::uint32_t> mask, std::vector<std::int32_t>& columns) const;
  /// Fills `out` for scratch.columns. `factors`: [rank]; null: ones.
  void score(std::span<const float> logits, std::span<const std::int32_t> ids, const float* factors,
             std::int32_t predecessor, WalkScratch& scratch, WalkCandidates& out) const;

  /// Both, for Executable::walk_candidates.
  void candidates(std::span<const float> logits, std::span<const std::int32_t> ids,
                  std::span<const std::uint32_t> mask, const float* factors, std::int32_t predecessor,
                  WalkCandidates& out) const;

  const Walk& op() const { return op_; }

 private:
  Walk op_;
};

}  // namespace ft
