// How many tokens to draft in the next round of a slot. Fixed, or chosen so that the expected tokens per unit
// of time are most: (1 + a_1 + a_1 a_2 + ...) / (verify(1 + d) + d * draft), summed over the slots of a
// round, from costs that the scheduler
// measures and from the acceptance of recent rounds. Depth never changes an answer, so measured times may
// decide it. Times on a shared machine are late, never early, so an estimate follows a faster round quickly
// and a slower one slowly. Owner: one policy a slot, one cost model an engine. Thread: the engine thread.
// Cost: O(kMaxDepth).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "drafters/drafter.h"
#include "spec/cost_figures.h"

namespace ft {

/// What a round costs, in any one unit of time: so much by its rows, measured for those of one slot and
/// continued in a straight line beyond them, the passes of a head, and in a batch so much for each further
/// slot, which has a state of its own, and for each draft, which is a row of the head as well. Before
/// anything was measured: a guess.
class CostModel {
 public:
  static constexpr int kRows = kMaxDepth + 1;  // of the largest round of one slot
  CostModel();

  /// A round of `rows` verified rows of `slots` sequences and `passes` passes of the head took `cost`.
  void observe(int rows, int passes, double cost, int slots = 1);
  /// Fills the row counts that were not measured from those that were. `measured[rows]` > 0 is a cost; [1]
  /// must be.
  void calibrate(const std::array<double, kRows + 1>& measured, double draft);
  /// What calibrate() and the rounds since have taught of one slot's rounds, in the unit that they were
  /// measured in; calibrate(figures.verify_ms, figures.draft_ms) takes it up again.
  CostFigures figures() const { return {verify_, draft_}; }

  double verify(int rows, int slots = 1) const;
  double draft() const { return draft_; }
  /// The cost of a round of one slot in plain steps; `free`: its drafts need no network.
  double round(int depth, bool free) const { return round(depth + 1, free ? 0 : depth, 1); }
  /// Of any round.
  double round(int rows, int passes, int slots) const {
    return (verify(rows, slots) + draft_ * passes) / verify_[1];
  }

 private:
  void observe_batch(int rows, int passes, double cost, int slots);
  static double share(double late, int seen);

  std::array<double, kRows + 1> verify_{};  // [rows]
  double draft_ = 0.15;                     // one pass of the head
  double beyond_ = 0.1;                     // a row more than kRows
  double slot_ = 0.05;                      // a slot more than one, beside its rows
  double batch_draft_ = 0;                  // a draft in a batch, beside its row and the passes
  int plain_seen_ = 0, drafted_seen_ = 0;   // batches
  bool measured_ = false;
};

/// Whether drafts that a drafter makes without a network are counted, or those that cost a pass each: a text
/// that repeats itself says nothing about the model's own head.
enum class DraftCost : std::uint8_t { kPasses, kFree };

/// The chance that draft i + 1 is right if those before it were, from recent rounds. A slow mean of the last
/// observations and a fast one; where they are far apart the text has changed and the fast one counts. A
/// position that was seldom reached is taken to be like the one before it.
class AcceptanceEstimate {
 public:
  static constexpr double kPrior = 0.7;

  explicit AcceptanceEstimate(double prior = kPrior) : prior_(prior) {}

  void observe(int drafted, int accepted);
  /// A round without a draft: what is known grows old.
  void age();
  std::array<double, kMaxDepth> rates() const;
  /// Drafts at the first position that were seen.
  int seen() const { return seen_; }

 private:
  struct Position {
    double weight = 0, slow = 0, fast = 0;
  };
  double prior_;
  int seen_ = 0;
  std::array<Position, kMaxDepth> positions_{};
};

/// The round that a slot's drafts come into: what its neighbours put there already.
struct RoundSoFar {
  int slots = 1;      // all of them
  int rows = 0;       // of the others, each at least its pending token
  int passes = 0;     // of a head
  double tokens = 0;  // expected of the others
};

/// What earlier requests say about the next one. Owner: the decoder, one for all its slots.
struct AcceptancePrior {
  std::array<double, 2> first = {AcceptanceEstimate::kPrior, AcceptanceEstimate::kPrior};  // by DraftCost
};

class DepthPolicy {
 public:
  /// depth 0..kMaxDepth, or -1 for auto.
  explicit DepthPolicy(int depth = -1, const AcceptancePrior& prior = {});

  /// At most `available` and `allowed`. Among neighbours it is the whole round's tokens per unit of time that
  /// counts: a row costs what it adds to the round.
  int choose(const CostModel& costs, int available, int allowed, DraftCost cost,
             const RoundSoFar& others = {});
  /// Tokens that the last choice expects of its slot, its bonus included.
  double expected() const { return reason_.expected; }
  void observe(int drafted, int accepted, DraftCost cost);
  /// Makes `prior` a little more like what this request has seen. Nothing where the depth was given: the
  /// rounds that measure costs draft for a sequence that is no text.
  void teach(AcceptancePrior& prior) const;
  /// "depth 3: drafts right .91 .85 .77, 1.21 steps a round, 2.9 tokens": why the last choice fell as it did.
  std::string explain() const;

 private:
  static constexpr int kFirstProbe = 16;  // rounds at depth 0 before the first probe; doubled after each
  static constexpr int kLastProbe = 512;

  struct Reason {
    int chosen = 0, most = 0;
    bool probe = false;
    DraftCost cost = DraftCost::kPasses;
    double steps = 1, tokens = 1;  // of the chosen depth's round, all slots together
    double expected = 1;           // tokens of this slot
    std::array<double, kMaxDepth> rates{};
  };

  AcceptanceEstimate& estimate(DraftCost cost) { return estimates_[static_cast<std::size_t>(cost)]; }

  int fixed_;
  int idle_ = 0;  // rounds at depth 0 since the last draft
  int next_probe_ = kFirstProbe;
  std::array<AcceptanceEstimate, 2> estimates_;  // by DraftCost
  Reason reason_;
};

}  // namespace ft
