#include "sched/calibration/calibrate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/log.h"

namespace ft {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Plan {
  std::size_t prompt;  // tokens
  std::vector<int> usual, few;
  double enough_ms;
  int long_sweeps;
};

/// A sequence that n-gram lookup can always continue. Equal tokens would go to the same experts, so that rows
/// seemed to cost little; a mixture of experts repeats a few different ones.
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
/// `long_sweeps` times. A round of a large model is long enough to be measured once, and its start should not
/// wait for more. The rounds show whether the prompt was slow only because it was the first step or the
/// machine was busy.
void measure(Decoder& decoder, DrafterKind kind, const Plan& plan,
             const std::function<void(int depth, const RoundShape& shape, double ms)>& measured) {
  constexpr int kMostSweeps = 20;
  constexpr double kLongMs = 60;
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
  Clock::time_point start = Clock::now();
  const bool ready = decoder.prefill(*only, static_cast<int>(prompt.size())).ok();
  bool lasts = ms_since(start) > kLongMs;
  double fastest_ms = kLongMs;
  start = Clock::now();
  const auto goes_on = [&](int sweep) {
    if (lasts) return sweep < plan.long_sweeps;
    return sweep == 0 || (sweep < kMostSweeps && ms_since(start) < plan.enough_ms);
  };
  for (int sweep = 0; ready && goes_on(sweep); ++sweep) {
    for (const int depth : lasts ? plan.few : plan.usual) {
      if (only->finish != Finish::kNone) break;
      only->tokens.back() = sequence.at(only->tokens.size() - 1);  // periodic whatever the model says
      only->policy = DepthPolicy(depth);
      const Clock::time_point begin = Clock::now();
      const RoundShape shape = decoder.round({&only, 1});
      const double ms = ms_since(begin);
      measured(depth, shape, ms);
      fastest_ms = std::min(fastest_ms, ms);
    }
    lasts = lasts && fastest_ms > kLongMs / 2;
  }
}

}  // namespace

bool calibrate(Decoder& decoder, int long_sweeps) {
  const Plan lookup{4, {0, 1, 3, 7}, {0, 3}, 200, long_sweeps};
  const Plan head{2, {3, 3}, {3}, 60, long_sweeps};
  std::array<double, CostModel::kRows + 1> by_rows{};
  const Drafter* network = decoder.network_drafter();
  double with_head = 0;
  int with_steps = 3;
  const auto keep_best = [](double& best, double ms) {
    if (ms > 0 && (best == 0 || ms < best)) best = ms;
  };
  try {
    measure(decoder, DrafterKind::kLookup, lookup, [&](int depth, const RoundShape& shape, double ms) {
      const auto rows = static_cast<std::size_t>(depth) + 1;
      if (shape.rows == depth + 1) keep_best(by_rows[rows], ms);
    });
    if (network != nullptr) {
      measure(decoder, DrafterKind(network->name()), head, [&](int, const RoundShape& shape, double ms) {
        if (shape.draft_steps > 0 && shape.rows == 4)
          with_steps = shape.draft_steps, keep_best(with_head, ms);
      });
    }
  } catch (const std::exception& failure) {
    log_warn(std::string("calibration failed, draft depths use estimates: ") + failure.what());
  }
  const bool drafted = with_head > 0 && by_rows[4] > 0;
  const double least = 0.01 * by_rows[1];
  decoder.costs().calibrate(by_rows, drafted ? std::max((with_head - by_rows[4]) / with_steps, least) : 0);
  return by_rows[1] > 0 && by_rows[4] > 0 && (drafted || network == nullptr);
}

}  // namespace ft
