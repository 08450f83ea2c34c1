// The probability that drafts of one drafter are right, learnt from the rounds of one request (the basis of
// speculation/depth.h). AcceptanceLevel is one set of rates by position. AcceptanceEstimate adds that a text
// may change: its rates_now() follow a change within two or three rounds, which matters if another drafter
// could take over.
#pragma once

#include <array>

#include "drafters/drafter.h"

namespace ft {

/// The chance that draft i + 1 is right if all drafts before it were, from recent rounds. It keeps a slow and
/// a fast mean of the last observations; if they are far apart, the text has changed and the fast one counts.
/// A position that was seldom reached is assumed to differ from the one before it as in earlier requests.
class AcceptanceLevel {
 public:
  using Rates = std::array<double, kMaxDraftTokens>;

  explicit AcceptanceLevel(const Rates& prior) : prior_(prior) {}
  void observe(int drafted, int accepted);
  /// A round without a draft: observations age.
  void age();
  /// The text has changed, as another drafter shows: past observations count for little.
  void doubt();
  Rates rates() const;
  /// True if recent rounds are enough to know the rates without the prior.
  bool sure() const;
  /// Drafts at this position that were seen.
  int seen(std::size_t position) const { return positions_[position].seen; }

 private:
  struct Position {
    double weight = 0, slow = 0, fast = 0;
    int seen = 0;
  };
  Rates prior_;
  std::array<Position, kMaxDraftTokens> positions_{};
};

/// A drafter does well on some parts of a text and poorly on others. Both levels are estimated, and the
/// chance that it does poorly now: a hidden Markov model of two states, filtered round by round.
class AcceptanceEstimate {
 public:
  using Rates = AcceptanceLevel::Rates;
  static constexpr double kPrior = 0.7;

  explicit AcceptanceEstimate(double prior = kPrior);
  explicit AcceptanceEstimate(const Rates& prior);

  void observe(int drafted, int accepted);
  void age();
  void doubt();
  /// The rates of recent rounds together.
  Rates rates() const { return all_.rates(); }
  /// The rates of the two levels, weighted by their probabilities.
  Rates rates_now() const;
  /// rates_now() recently predicted rounds better than rates(): the text changes between two levels.
  bool changes() const { return edge_ > 2.5; }
  bool poor() const { return poor_ > 0.5; }
  bool sure() const { return all_.sure() || (poor() ? poorly_ : well_).sure(); }
  int seen(std::size_t position) const { return all_.seen(position); }

 private:
  AcceptanceLevel all_, well_, poorly_;
  double poor_ = 0;  // chance that it does poorly now
  double edge_ = 0;  // log-likelihood of recent rounds by rates_now() beyond that by rates()
};

}  // namespace ft
