// How many tokens to draft in the next round of a slot. The depth is fixed, or chosen for the most expected
// tokens per unit of time: (1 + a_1 + a_1 a_2 + ...) / (verify(1 + d) + draft_cost(d) * step), summed over
// the slots of a round. The scheduler measures the costs; the acceptance a_i is that of recent rounds,
// estimated for each drafter. Depth never changes an answer, so measured times may decide it. Times on a
// shared machine are late, never early, so an estimate follows a faster round quickly and a slower one
// slowly. A slot has one policy, an engine one cost model.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "drafters/drafter.h"
#include "speculation/cost_figures.h"

namespace ft {

/// What a round costs, in any one unit of time. Its rows have a cost by their number, measured for those of
/// one slot and continued in a straight line beyond them. Each draft step costs the same. In a batch each
/// further slot costs something, because it has a state of its own, and each draft, because it is a row of
/// the drafter's network too. Before anything was measured the costs are a guess.
class CostModel {
 public:
  static constexpr int kRows = kMaxDepth + 1;  // of the largest round of one slot
  CostModel();

  /// A round of `rows` verified rows of `slots` sequences and `passes` draft steps took `cost`.
  void observe(int rows, int draft_steps, double cost, int slots = 1);
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
  double round(int rows, int draft_steps, int slots) const {
    return (verify(rows, slots) + draft_ * draft_steps) / verify_[1];
  }

 private:
  void observe_batch(int rows, int draft_steps, double cost, int slots);
  static double share(double late, int seen);

  std::array<double, kRows + 1> verify_{};  // [rows]
  double draft_ = 0.15;                     // one pass of the head
  double beyond_ = 0.1;                     // a row more than kRows
  double slot_ = 0.05;                      // a slot more than one, beside its rows
  double batch_draft_ = 0;                  // a draft in a batch, beside its row and the passes
  int plain_seen_ = 0, drafted_seen_ = 0;   // batches
  bool measured_ = false;
};

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
  std::array<double, kMaxDraft> rates() const;
  /// Drafts at the first position that were seen.
  int seen() const { return seen_; }

 private:
  struct Position {
    double weight = 0, slow = 0, fast = 0;
  };
  double prior_;
  int seen_ = 0;
  std::array<Position, kMaxDraft> positions_{};
};

/// The round that a slot's drafts come into: what its neighbours put there already.
struct RoundSoFar {
  int slots = 1;        // all of them
  int rows = 0;         // of the others, each at least its pending token
  int draft_steps = 0;  // of a head
  double tokens = 0;    // expected of the others
};

/// What earlier requests say about the next one; a decoder has one for all its slots.
struct AcceptancePrior {
  std::array<double, kMaxDrafters> first;  // [Drafter::number()] of the first draft
  AcceptancePrior() { first.fill(AcceptanceEstimate::kPrior); }
};

class DepthPolicy {
 public:
  /// depth 0..kMaxDraft, or -1 for auto.
  explicit DepthPolicy(int depth = -1, const AcceptancePrior& prior = {});

  /// At most `available` and `allowed`. `drafter`: who offers them. Among neighbours the whole round's tokens
  /// per unit of time count: a row costs what it adds to the round.
  int choose(const CostModel& costs, int available, int allowed, const Drafter& drafter,
             const RoundSoFar& others = {});
  /// Nothing is available.
  int choose_none();
  /// Tokens that the last choice expects of its slot, its bonus included.
  double expected() const { return reason_.expected; }
  void observe(int drafted, int accepted, const Drafter& drafter);
  /// Makes `prior` a little more like what this request has seen. Nothing where the depth was given: the
  /// rounds that measure costs draft for a sequence that is not a text.
  void teach(AcceptancePrior& prior) const;
  /// "depth 3: drafts right .91 .85 .77, 1.21 steps a round, 2.9 tokens": why the last choice fell as it did.
  std::string explain() const;

 private:
  static constexpr int kFirstProbe = 16;  // rounds at depth 0 before the first probe; doubled after each
  static constexpr int kLastProbe = 512;

  struct Reason {
    int chosen = 0, most = 0;
    bool probe = false;
    bool free = false;             // drafts cost no step
    double steps = 1, tokens = 1;  // of the chosen depth's round, all slots together
    double expected = 1;           // tokens of this slot
    std::array<double, kMaxDraft> rates{};
  };

  AcceptanceEstimate& estimate(const Drafter& drafter) {
    return estimates_[static_cast<std::size_t>(drafter.number())];
  }

  int fixed_;
  int idle_ = 0;  // rounds at depth 0 since the last draft
  int next_probe_ = kFirstProbe;
  std::array<AcceptanceEstimate, kMaxDrafters> estimates_;  // [Drafter::number()]
  Reason reason_;
};

}  // namespace ft
