// How many tokens to draft in the next round of a slot. Fixed, or chosen so that the expected tokens per unit
// of time are most: (1 + a_1 + a_1 a_2 + ...) / (verify(1 + d) + d * draft), from costs that the scheduler
// measures and from the acceptance of recent rounds. Depth never changes an answer, so measured times may
// decide it. Times on a shared machine are late, never early, so an estimate follows a faster round quickly
// and a slower one slowly. Owner: one policy a slot, one cost model an engine. Thread: the engine thread.
// Cost: O(kMaxDepth).
#pragma once

#include <array>

#include "drafters/drafter.h"

namespace ft {

/// What a round of one slot costs, in any one unit of time. Before anything was measured: a guess.
class CostModel {
 public:
  static constexpr int kRows = kMaxDepth + 1;  // of the largest round
  CostModel();

  /// A round of `rows` verified rows and `passes` passes of the head took `cost`.
  void observe(int rows, int passes, double cost);
  /// Fills the row counts that were not measured from those that were. `measured[rows]` > 0 is a cost; [1]
  /// must be.
  void calibrate(const std::array<double, kRows + 1>& measured, double draft);

  double verify(int rows) const { return verify_[static_cast<std::size_t>(rows)]; }
  double draft() const { return draft_; }
  /// The cost of a round in plain steps; `free`: its drafts need no network.
  double round(int depth, bool free) const;

 private:
  std::array<double, kRows + 1> verify_{};  // [rows]
  double draft_ = 0.15;                     // one pass of the head
  bool measured_ = false;
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
  static constexpr int kFirstProbe = 4;   // rounds at depth 0 before the first probe; doubled after each
  static constexpr int kLastProbe = 512;

  int fixed_;
  int idle_ = 0;  // rounds at depth 0 since the last draft
  int next_probe_ = kFirstProbe;
  std::array<double, kMaxDepth> recent_{};  // [i]: chance that draft i + 1 is right if those before it are
};

}  // namespace ft
