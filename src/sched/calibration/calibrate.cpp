#include "sched/calibration/calibrate.h"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"

namespace ft {
namespace {

struct Plan {
  std::size_t prompt;  // tokens
  std::vector<int> usual, few;
  double enough_ms;
  int warm_up;  // depth of the round before those that are measured
  const std::function<double()>& now_ms;
};

/// A sequence that n-gram lookup can always continue. Equal tokens would go to the same experts, and rows
/// would seem to cost little, so a mixture of experts repeats a few different tokens.
class Periodic {
 public:
  explicit Periodic(const ModelFacts& facts) : step_(facts.experts > 0 ? facts.vocabulary / kPeriod : 0) {}
  std::int32_t at(std::size_t position) const {
    return static_cast<std::int32_t>(position % kPeriod) * step_;
  }
  /// Long enough to repeat.
  std::vector<std::int32_t> first(std::size_t count) const {
    std::vector<std::int32_t> tokens(step_ > 0 ? std::max<std::size_t>(count, 2 * kPeriod) : count);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = at(i);
    return tokens;
  }

 private:
  static constexpr std::size_t kPeriod = 8;
  std::int32_t step_;
};

/// Runs rounds at the usual depths on a throw-away sequence, one after the other, and repeats them until they
/// have taken `enough_ms`. If the prompt alone takes longer than kLongMs, it runs only the depths in `few`,
/// kLongSweeps times: a start should not wait for more, and one sweep may have met a busy moment. The rounds
/// show whether the prompt was slow only because it was the first step or the machine was busy. The round
/// before them is not measured, because a drafter's first round allocates and touches new memory.
void measure(Decoder& decoder, DrafterKind kind, const Plan& plan,
             const std::function<void(int depth, const RoundShape& shape, double ms)>& measured) {
  constexpr int kMaxSweeps = 20;
  constexpr double kLongMs = 60;
  constexpr int kLongSweeps = 2;
  SlotOptions options;
  options.max_tokens = 1 << 20;
  options.depth = 0;
  const Periodic sequence(decoder.model().facts);
  const std::vector<std::int32_t> prompt = sequence.first(plan.prompt);
  Result<std::unique_ptr<Slot>> slot = decoder.open(prompt, options, kind);
  if (!slot.ok()) return;
  Slot* only = slot->get();
  const auto close = [&decoder](Slot* open) { decoder.close(*open); };  // also if a round throws
  const std::unique_ptr<Slot, decltype(close)> closing(only, close);
  double start = plan.now_ms();
  const bool ready = decoder.prefill(*only, static_cast<int>(prompt.size())).ok();
  bool lasts = plan.now_ms() - start > kLongMs;
  double fastest_ms = kLongMs;
  const auto round_at = [&](int depth) {
    only->tokens.back() = sequence.at(only->tokens.size() - 1);  // periodic for every output of the model
    only->policy = DepthPolicy(depth);
    return decoder.round({&only, 1});
  };
  if (ready) round_at(plan.warm_up);
  start = plan.now_ms();
  const auto goes_on = [&](int sweep) {
    if (lasts) return sweep < kLongSweeps;
    return sweep == 0 || (sweep < kMaxSweeps && plan.now_ms() - start < plan.enough_ms);
  };
  for (int sweep = 0; ready && goes_on(sweep); ++sweep) {
    for (const int depth : lasts ? plan.few : plan.usual) {
      if (only->finish != Finish::kNone) break;
      const double begin = plan.now_ms();
      const RoundShape shape = round_at(depth);
      const double ms = plan.now_ms() - begin;
      measured(depth, shape, ms);
      fastest_ms = std::min(fastest_ms, ms);
    }
    lasts = lasts && fastest_ms > kLongMs / 2;
  }
}

/// The best of repeated samples, and the distance of the next best one.
struct Timing {
  double best_ms = 0, second_ms = 0;
  int seen = 0;

  void add(double ms) {
    if (ms <= 0) return;
    ++seen;
    if (best_ms == 0 || ms < best_ms) {
      second_ms = best_ms, best_ms = ms;
    } else if (second_ms == 0 || ms < second_ms) {
      second_ms = ms;
    }
  }
  /// Two samples agree: neither was held up by another program. One alone says nothing about that.
  bool steady() const { return seen < 2 || agree(second_ms, best_ms); }
  static bool agree(double a_ms, double b_ms) {
    constexpr double kApart = 1.25;
    return std::max(a_ms, b_ms) <= kApart * std::min(a_ms, b_ms);
  }
};

constexpr int kMaxTries = 3;

/// Milliseconds of one pass of this drafter's network; 0: it could not be measured. Samples of a busy moment
/// can agree with each other, so plain rounds between them must take as long as before.
double pass_ms(Decoder& decoder, const Drafter& network, const Plan& plan,
               const std::array<double, CostModel::kRows + 1>& round_ms, bool& steady) {
  Timing drafted;
  int passes = 0;
  bool agrees = false;
  for (int tries = 0; tries < kMaxTries && !agrees; ++tries) {
    Timing plain;
    measure(decoder, DrafterKind(network.name()), plan, [&](int depth, const RoundShape& shape, double ms) {
      if (depth == 0) plain.add(ms);
      if (depth == 0 || shape.draft_steps <= 0 || shape.rows != depth + 1) return;
      passes = network.draft_cost(depth);
      drafted.add(ms);
    });
    agrees = drafted.steady() && (plain.seen == 0 || Timing::agree(plain.best_ms, round_ms[1]));
  }
  steady = steady && agrees;
  if (drafted.best_ms <= 0 || round_ms[4] <= 0 || passes == 0) return 0;
  const double least = 0.01 * decoder.costs().verify(1);
  return std::max((drafted.best_ms - round_ms[4]) / passes, least);
}

/// Samples of rounds of each size; more of them while they disagree.
bool sample_rounds(Decoder& decoder, const Plan& plan, std::array<double, CostModel::kRows + 1>& best) {
  std::array<Timing, CostModel::kRows + 1> by_rows{};
  bool steady = false;
  for (int tries = 0; tries < kMaxTries && !steady; ++tries) {
    measure(decoder, DrafterKind::kLookup, plan, [&](int depth, const RoundShape& shape, double ms) {
      if (shape.rows == depth + 1) by_rows[static_cast<std::size_t>(depth) + 1].add(ms);
    });
    steady = std::ranges::all_of(by_rows, &Timing::steady);
  }
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = by_rows[i].best_ms;
  return steady;
}

}  // namespace

CostFigures believed_of(CostFigures unsteady) {
  const CostFigures guess = CostModel().figures();
  const double plain = unsteady.verify_ms[1] / guess.verify_ms[1];
  for (std::size_t rows = 2; rows < unsteady.verify_ms.size(); ++rows)
    unsteady.verify_ms[rows] = std::min(unsteady.verify_ms[rows], plain * guess.verify_ms[rows]);
  unsteady.draft_ms = std::min(unsteady.draft_ms, plain * guess.draft_ms);
  constexpr double kMaxPasses = 3;  // of the first network, as the cost of a pass of another one
  for (double& weight : unsteady.draft_weight) weight = std::min(weight, kMaxPasses);
  return unsteady;
}

Calibrated calibrate(Decoder& decoder, const std::function<double()>& now_ms) {
  const Plan lookup{4, {0, 1, 3, 7, 15}, {0, 3}, 200, 0, now_ms};
  const Plan head{2, {0, 3, 3}, {3}, 60, 3, now_ms};
  std::array<double, CostModel::kRows + 1> best{};
  double reference = 0;
  bool networks = true, steady = true;
  WorkerChoice workers;
  try {
    workers = choose_workers(decoder, now_ms);
    steady = sample_rounds(decoder, lookup, best);
    decoder.costs().calibrate(best, 0);
    for (const auto& drafter : decoder.drafters()) {
      if (drafter->draft_cost(1) == 0) continue;
      const double ms = pass_ms(decoder, *drafter, head, best, steady);
      networks = networks && ms > 0;
      if (reference == 0) {
        decoder.costs().calibrate(best, reference = ms);
      } else if (ms > 0) {
        decoder.costs().set_pass_cost(drafter->number(), ms / reference);
      }
    }
  } catch (const std::exception& failure) {
    networks = false;
    log_warn(std::string("calibration failed, draft depths use estimates: ") + failure.what());
  }
  const bool measured = best[1] > 0 && best[4] > 0 && networks;
  if (measured && !steady) decoder.costs().restore(believed_of(decoder.costs().figures()));
  return {measured, steady, std::move(workers)};
}

}  // namespace ft
