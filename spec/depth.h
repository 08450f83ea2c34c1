// How many tokens to draft in the next round of a slot. Fixed, or chosen so that the expected tokens per unit
// of time are most: (1 + a_1 + a_1 a_2 + ...) / (verify(1 + d) + drafting(d)), from costs that the scheduler
// measures and from the acceptance of recent rounds. Depth never changes an answer, so measured times may
// decide it. Owner: one policy a slot, one cost model an engine. Thread: the engine thread. Cost:
// O(kMaxDepth).
#pragma once

#include <array>

#include "drafters/drafter.h"

namespace ft {

/// What a round costs, in units of one plain step. Starts from a guess, refined by the scheduler's clock.
struct CostModel {
  std::array<double, kMaxDepth + 2>
      verify{};        // [rows]: a target pass of that many rows of one slot; verify[1] is 1
  double draft = 0.1;  // one pass of the head
  CostModel();

  /// What was measured at start, in any one unit: rounds without a network by rows (0: not measured,
  /// interpolated), and a round of `rows` rows and `passes` passes of the head.
  void calibrate(const std::array<double, kMaxDepth + 2>& by_rows, int rows, int passes, double with_head);
  /// A later round of `rows` verified rows and `passes` of the head took `cost`, in the same unit.
  void observe(int rows, int passes, double cost);

 private:
  double plain_ = 0;  // cost of one row, in the caller's unit
};

class DepthPolicy {
 public:
  /// depth 0..kMaxDepth, or -1 for auto.
  explicit DepthPolicy(int depth = -1) : fixed_(depth) { recent_.fill(kPrior); }

  /// At most `available` and `allowed`; `free` drafts cost nothing to make.
  int choose(const CostModel& costs, int available, int allowed, bool free);
  void observe(int drafted, int accepted);

 private:
  static constexpr double kPrior = 0.75;  // acceptance assumed before anything was seen
  static constexpr double kDecay = 0.95;  // weight of the past per observation
  static constexpr int kProbeEvery = 24;  // rounds at depth 0 between two probes of depth 1

  int fixed_;
  int idle_ = 0;
  std::array<double, kMaxDepth> recent_{};  // [i]: chance that draft i + 1 is right if those before it are
};

}  // namespace ft
