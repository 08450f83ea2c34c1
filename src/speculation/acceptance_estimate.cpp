#include "speculation/acceptance_estimate.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

constexpr double kEnough = 8;  // weight from which two means can tell a change
constexpr double kApart = 0.32;
constexpr double kChange = 0.02;       // chance that a text changes in a round
constexpr double kIdleChange = 0.004;  // the same for a round without a draft

AcceptanceLevel::Rates all_of(double rate) {
  AcceptanceLevel::Rates rates;
  rates.fill(rate);
  return rates;
}

/// The rates assumed for a drafter where it does poorly.
AcceptanceLevel::Rates poor_of(AcceptanceLevel::Rates rates) {
  constexpr double kPart = 0.6;
  for (double& rate : rates) rate *= kPart;
  return rates;
}

/// The likelihood of `accepted` right drafts out of `drafted`.
double likelihood(const AcceptanceLevel::Rates& rates, int drafted, int accepted) {
  const auto rate = [&](int at) { return std::clamp(rates[static_cast<std::size_t>(at)], 0.02, 0.98); };
  double chance = accepted < drafted ? 1 - rate(accepted) : 1;
  for (int i = 0; i < std::min(accepted, kMaxDraftTokens); ++i) chance *= rate(i);
  return chance;
}

}  // namespace

void AcceptanceLevel::observe(int drafted, int accepted) {
  constexpr double kSlow = 28;      // observations that the slow mean remembers
  constexpr double kFast = 8;       // and the fast one
  constexpr double kUnseen = 0.96;  // weight that a position keeps for a round that did not reach it
  for (int i = 0; i < kMaxDraftTokens; ++i) {
    Position& at = positions_[static_cast<std::size_t>(i)];
    if (i < std::min(drafted, accepted + 1)) {
      const double right = i < accepted ? 1 : 0;
      at.weight = std::min(at.weight + 1, kSlow);
      at.slow += (right - at.slow) / at.weight;
      at.fast += (right - at.fast) / std::min(at.weight, kFast);
      ++at.seen;
    } else if (drafted > 0) {
      at.weight *= kUnseen;
    }
  }
}

void AcceptanceLevel::age() {
  constexpr double kKept = 0.99;
  constexpr double kMin = 4;
  for (Position& at : positions_) at.weight = std::max(std::min(at.weight, kMin), at.weight * kKept);
}

void AcceptanceLevel::doubt() {
  constexpr double kLeft = 1.5;
  for (Position& at : positions_) at.weight = std::min(at.weight, kLeft);
}

bool AcceptanceLevel::sure() const { return positions_[0].weight >= kEnough; }

AcceptanceLevel::Rates AcceptanceLevel::rates() const {
  constexpr double kTrust = 3;  // observations that the prior weighs as much as
  constexpr double kSure = 0.98;
  Rates rates{};
  double expected = prior_[0];
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const Position& at = positions_[i];
    // A position that was never right soon outweighs its prior.
    const double trust = at.slow > 0 ? kTrust : kTrust * kEnough / (kEnough + at.weight);
    rates[i] = (trust * expected + at.weight * at.slow) / (trust + at.weight);
    if (at.weight > kEnough && std::abs(at.fast - at.slow) > kApart) rates[i] = at.fast;
    if (i + 1 < rates.size())
      expected = std::clamp(rates[i] + prior_[i + 1] - prior_[i], 0.0, std::max(kSure, rates[i]));
  }
  return rates;
}

AcceptanceEstimate::AcceptanceEstimate(double prior) : AcceptanceEstimate(all_of(prior)) {}

AcceptanceEstimate::AcceptanceEstimate(const Rates& prior)
    : all_(prior), well_(prior), poorly_(poor_of(prior)) {}

void AcceptanceEstimate::observe(int drafted, int accepted) {
  if (drafted > 0) {
    constexpr double kKept = 0.99;
    edge_ = kKept * edge_ +
            std::log(likelihood(rates_now(), drafted, accepted) / likelihood(rates(), drafted, accepted));
  }
  all_.observe(drafted, accepted);
  if (drafted <= 0) return;
  const double poorly = poor_ * likelihood(poorly_.rates(), drafted, accepted);
  const double well = (1 - poor_) * likelihood(well_.rates(), drafted, accepted);
  poor_ = poorly / (poorly + well);
  (poor() ? poorly_ : well_).observe(drafted, accepted);
  poor_ += kChange * (1 - 2 * poor_);
}

void AcceptanceEstimate::age() {
  all_.age();
  (poor() ? poorly_ : well_).age();
  poor_ += kIdleChange * (1 - 2 * poor_);
}

void AcceptanceEstimate::doubt() {
  constexpr double kMaybe = 0.5;
  all_.doubt();
  poor_ = std::min(poor_, kMaybe);
}

/// The more drafts of a round were right, the likelier it is that the drafter does well.
AcceptanceEstimate::Rates AcceptanceEstimate::rates_now() const {
  const Rates well = well_.rates(), poorly = poorly_.rates();
  Rates rates{};
  double as_well = 1 - poor_, as_poor = poor_;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    rates[i] = (as_well * well[i] + as_poor * poorly[i]) / std::max(1e-12, as_well + as_poor);
    as_well *= well[i], as_poor *= poorly[i];
  }
  return rates;
}

}  // namespace ft
