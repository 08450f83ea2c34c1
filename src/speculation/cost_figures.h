// The figures of a cost model after measurements, as plain numbers that are kept from one start to the next
// (sched/calibration/calibration_cache.h). plausible() checks whether numbers from elsewhere can be costs at
// all.
#pragma once

#include <array>

#include "drafters/drafter.h"

namespace ft {

struct CostFigures {
  static constexpr double kMaxMs = 1e7;     // of a round
  static constexpr double kMaxTimes = 100;  // a plain round's cost, that any figure may be

  std::array<double, kMaxDraftTokens + 2> verify_ms{};  // [rows] of a round of one slot; [0] is nothing
  double draft_ms = 0;                            // a pass of the network that draft steps are counted in
  std::array<double, kMaxDrafters> draft_weight;  // [Drafter::number()] a pass of the others, in such passes

  CostFigures() { draft_weight.fill(1); }
  CostFigures(const std::array<double, kMaxDraftTokens + 2>& verify, double draft,
              const std::array<double, kMaxDrafters>& weight)
      : verify_ms(verify), draft_ms(draft), draft_weight(weight) {}

  /// Finite, above zero, within the limits, and more rows never cost less.
  bool plausible() const;
  /// True if a figure differs from the same one in `other` by more than this factor, up or down.
  bool far_from(const CostFigures& other, double factor) const;
};

}  // namespace ft
