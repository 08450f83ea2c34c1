// How many tokens to draft in the next round of a slot. The depth is fixed, or chosen for the most expected
// tokens per unit of time: (1 + a_1 + a_1 a_2 + ...) / (verify(1 + d) + draft_cost(d) * step), summed over
// the slots of a round. The scheduler measures the costs; the acceptance a_i is estimated from recent rounds,
// for each drafter. Depth never changes an answer, so measured times may decide it. On a
// shared machine, interference only ever makes a measurement slower, so an estimate follows a faster round
// quickly and a slower one slowly. A slot has one policy, an engine one cost model.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "drafters/drafter.h"
#include "speculation/acceptance_estimate.h"
#include "speculation/batch_plan.h"
#include "speculation/cost_model.h"

namespace ft {

/// The round that a slot's drafts join: the rows and passes that its neighbours have planned.
struct RoundSoFar {
  int slots = 1;                                // all of them
  int rows = 0;                                 // of the others, each at least its pending token
  double draft_steps = 0;                       // of the others
  double tokens = 0;                            // expected of the others
  std::array<double, kMaxDrafters> steps_of{};  // [Drafter::number()] of those draft steps
  ContextRead read = {};                        // of all sequences and the others' drafts
  double context = 0;                           // of this slot, in units of 1024 positions
  const Drafter* planned = nullptr;  // drafts `depth` tokens for this slot by the plan of the batch; or null
  int depth = 0;
  bool probe = false;  // the batch has drafted nothing for a while: this slot tries a draft
  bool held = false;   // drafts have cost the batch enough: no slot drafts but to probe
};

/// The offer of one drafter to a slot in this round.
struct Offer {
  const Drafter* drafter = nullptr;
  int max_tokens = 0;     // drafts
  int context_class = 0;  // Drafter::context_class()
  double catch_up = 0;    // draft steps that it needs before the first draft
};

/// Acceptance learnt from earlier requests; a decoder has one for all its slots.
struct AcceptancePrior {
  using ByClass = std::array<AcceptanceEstimate::Rates, Drafter::kContextClasses>;
  std::array<ByClass, kMaxDrafters> rates;  // [Drafter::number()][context_class]
  double exploration_budget = 0;            // DepthPolicy's, left by requests that ended
  double wrong_draft_allowance = 1;         // the same
  int shallow = 0;                          // rounds since a deeper one was tried, of these requests too

  AcceptancePrior() {
    for (ByClass& classes : rates) classes.fill(AcceptanceEstimate::Rates());
    for (int drafter = 0; drafter < kMaxDrafters; ++drafter) {
      for (int context_class = 0; context_class < Drafter::kContextClasses; ++context_class)
        expect(drafter, context_class, AcceptanceEstimate::kPrior);
    }
  }
  /// Every draft of this drafter and context_class is taken to be right with this chance.
  void expect(int drafter, int context_class, double rate) {
    rates[static_cast<std::size_t>(drafter)][static_cast<std::size_t>(context_class)].fill(rate);
  }
};

/// While a drafter has few observations, its wrong drafts cost at most what the policy's allowance covers, so
/// that an answer never takes much longer than without drafts. The allowance grows by kEarn of the time and
/// by the time that accepted drafts save.
class DepthPolicy {
 public:
  /// Part of the time that may be lost to trying drafters that are not expected to be the best.
  static constexpr double kExplore = 0.0065;
  static constexpr double kEarn = 0.01;

  /// depth 0..kMaxDraftTokens, or -1 for auto.
  explicit DepthPolicy(int depth = -1, const AcceptancePrior& prior = {});

  /// At most the offer's `max_tokens` and `allowed` drafts. With neighbours, tokens and time are summed over
  /// the whole round: a row costs what it adds to the round.
  int choose(const CostModel& costs, std::span<const Offer> offers, int allowed, const RoundSoFar& others);
  /// With one offer.
  int choose(const CostModel& costs, int available, int allowed, const Drafter& drafter,
             const RoundSoFar& others = {}) {
    const Offer offer{&drafter, available};
    return choose(costs, {&offer, 1}, allowed, others);
  }
  /// This slot's offers for the plan of a batch.
  BatchSlot prospects(const CostModel& costs, std::span<const Offer> offers, int allowed,
                      const RoundSoFar& plain);
  /// Nothing is available.
  int choose_none();
  /// Number of the offer that the last choice takes.
  std::size_t chosen() const { return reason_.offer; }
  /// Tokens that the last choice expects of its slot, its bonus included.
  double expected() const { return reason_.best.expected; }
  void observe(int drafted, int accepted, const Drafter& drafter, int context_class = 0);
  /// The chance that all drafts of the last choice are right; 1 where the depth is given.
  double reached() const;
  /// The number of tokens of a text after the drafts of the last choice that are worth their rows, at most
  /// `available`. All of those drafts were proposed. `others`: the draft steps belong to the whole round.
  int choose_more(const CostModel& costs, const Drafter& text, int context_class, int available,
                  const RoundSoFar& others);
  /// After observe(), if all drafts before that text were right: its tokens, and how many were right.
  void observe_more(int drafted, int accepted, const Drafter& text, int context_class);
  /// Moves `prior` a little towards this request's rates. Does nothing if the depth was given: the
  /// rounds that measure costs draft for a sequence that is not a text.
  /// `slots`: requests that ran together. They often end together, and one of them says as much as all.
  void teach(AcceptancePrior& prior, int slots = 1) const;
  /// "depth 3: mtp, drafts right .91 .85 .77; 2.90 tokens expected for 1.21 plain steps":
  /// the reason for the last choice.
  std::string explain() const;

 private:
  static constexpr int kFirstProbe = 16;  // rounds at depth 0 before the first probe; doubled after each
  static constexpr int kLastProbe = 128;
  static constexpr double kProbing = 0.005;   // part of the time that probes may take
  static constexpr int kStale = 24;           // rounds after which a drafter that did not draft may be tried
  static constexpr int kRetry = 48;           // rounds between two tries of a depth that costs alone rule out
  static constexpr int kLastRetry = 80;       // where a try loses much
  static constexpr double kRetrying = 0.004;  // part of the time that such tries may lose
  static constexpr double kLikely = 0.5;  // chance of a right draft from which costs alone rule drafts out
  static constexpr double kMaxExplorationBudget = 3;  // plain steps that exploration may save up
  static constexpr double kMaxAllowance = 6;          // plain steps
  static constexpr double kMinAllowance = 0.3;        // of a request that begins

  /// The best depth of one offer.
  struct Best {
    int depth = 0;
    double steps = 1, tokens = 1;  // of the round, all slots together
    double expected = 1;           // tokens of this slot
    double extra = 0;              // steps more than without this slot's drafts
    double saves = 1;              // steps that one more token of this slot is worth
    double pace() const { return tokens / steps; }
  };
  struct Reason {
    std::size_t offer = 0;
    int max_tokens = 0;
    bool probe = false;      // nothing pays, tried nevertheless
    bool likely = false;     // a probe of one slot whose drafts were known to be likely right
    bool exploring = false;  // another drafter is expected to be better
    bool free = false;       // drafts cost no step
    bool rivals = false;     // several networks could draft
    bool cheaper = false;    // the last probe or retry took less time than expected
    bool held = false;       // a depth would pay and the allowance does not cover it
    std::string_view drafter;
    Best best;
    AcceptanceEstimate::Rates rates{};
    std::array<double, kMaxDrafters> paces{};  // [offer]
    std::array<std::string_view, kMaxDrafters> names{};
    std::size_t offers = 0;
  };

  static Best at_depth(const CostModel& costs, const Offer& offer, int depth, double own_tokens,
                       const RoundSoFar& others);
  Best planned_depth(const CostModel& costs, const Offer& offer, int max_depth,
                     const RoundSoFar& others) const;
  Best best_depth(const CostModel& costs, const Offer& offer, int max_depth, const RoundSoFar& others,
                  const AcceptanceEstimate::Rates& right, double allowance) const;
  void note_networks(std::span<const Offer> offers);
  AcceptanceEstimate::Rates rates(const Offer& offer) const {
    const AcceptanceEstimate& known = estimate(*offer.drafter, offer.context_class);
    return (reason_.rivals && offer.drafter->draft_cost(1) > 0) || known.changes() ? known.rates_now()
                                                                                   : known.rates();
  }
  /// Steps that drafts of this offer may cost: a drafter that is known to pay needs no allowance.
  double allowance(const Offer& offer) const {
    return estimate(*offer.drafter, offer.context_class).sure() ? std::numeric_limits<double>::max()
                                                                : allowance_;
  }
  int choose_fixed(std::span<const Offer> offers, int allowed);
  bool explore(std::span<const Offer> offers, std::span<Best> bests, const CostModel& costs,
               const RoundSoFar& others);
  bool tried_cheaper(const CostModel& costs, const Offer& offer, const RoundSoFar& others);
  bool try_again(const CostModel& costs, const Offer& offer, int max_depth, const RoundSoFar& others);
  int probe(const CostModel& costs, std::span<const Offer> offers, int allowed, const RoundSoFar& others);

  AcceptanceEstimate& estimate(const Drafter& drafter, int context_class) {
    return estimates_[static_cast<std::size_t>(drafter.number())][static_cast<std::size_t>(context_class)];
  }
  const AcceptanceEstimate& estimate(const Drafter& drafter, int context_class) const {
    return estimates_[static_cast<std::size_t>(drafter.number())][static_cast<std::size_t>(context_class)];
  }

  int fixed_;
  int idle_ = 0;  // rounds at depth 0 since the last draft
  int next_probe_ = kFirstProbe;
  bool follow_ = false;            // the last probe was right: the next round tries again
  int shallow_ = 0;                // rounds since a deeper one was tried
  Best tried_;                     // the last round if it was a probe or a retry; depth 0 otherwise
  double exploration_budget_ = 0;  // plain steps that exploration may lose
  double allowance_ = 0;           // plain steps that wrong drafts may lose
  std::int64_t round_ = 0;
  using ByClass = std::array<AcceptanceEstimate, Drafter::kContextClasses>;
  std::array<ByClass, kMaxDrafters> estimates_;          // [Drafter::number()]
  std::array<bool, kMaxDrafters> networks_{};            // [Drafter::number()] those that need passes
  std::array<std::int64_t, kMaxDrafters> last_draft_{};  // [Drafter::number()] round in which it drafted
  Reason reason_;
};

}  // namespace ft
