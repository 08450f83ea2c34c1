#include "sched/calibrate.h"

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>

#include "base/log.h"

namespace ft {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Rounds at these depths, one after the other and again while they have taken less than `enough_ms`, on a
/// throw-away sequence of one repeated token, which lookup can always continue. A round of a large model is
/// long enough to be measured once, and its start should not wait for more.
void measure(Decoder& decoder, DrafterKind kind, std::initializer_list<int> depths, double enough_ms,
             const std::function<void(int depth, const RoundShape& shape, double ms)>& measured) {
  constexpr int kMostSweeps = 20;
  constexpr std::array<std::int32_t, 6> kPrompt{};
  SlotOptions options;
  options.max_tokens = 1 << 20;
  options.depth = 0;
  Result<std::unique_ptr<Slot>> slot = decoder.open(kPrompt, options, kind);
  if (!slot.ok()) return;
  Slot* only = slot->get();
  const auto close = [&decoder](Slot* open) { decoder.close(*open); };  // also where a round throws
  const std::unique_ptr<Slot, decltype(close)> closing(only, close);
  const bool ready = decoder.prefill(*only, static_cast<int>(kPrompt.size())).ok();
  const Clock::time_point start = Clock::now();
  for (int sweep = 0; ready && sweep < kMostSweeps && (sweep == 0 || ms_since(start) < enough_ms); ++sweep) {
    for (const int depth : depths) {
      if (only->finish != Finish::kNone) break;
      only->tokens.back() = 0;  // keeps the sequence periodic whatever the model says
      only->policy = DepthPolicy(depth);
      const Clock::time_point begin = Clock::now();
      const RoundShape shape = decoder.round({&only, 1});
      measured(depth, shape, ms_since(begin));
    }
  }
}

}  // namespace

void calibrate(Decoder& decoder) {
  constexpr double kLookupMs = 200;
  constexpr double kHeadMs = 60;
  std::array<double, CostModel::kRows + 1> by_rows{};
  double with_head = 0;
  const auto keep_best = [](double& best, double ms) {
    if (ms > 0 && (best == 0 || ms < best)) best = ms;
  };
  try {
    measure(decoder, DrafterKind::kLookup, {0, 1, 3, 7}, kLookupMs,
            [&](int depth, const RoundShape& shape, double ms) {
              const auto rows = static_cast<std::size_t>(depth) + 1;
              if (shape.rows == depth + 1) keep_best(by_rows[rows], ms);
            });
    measure(decoder, DrafterKind::kMtp, {3, 3}, kHeadMs, [&](int, const RoundShape& shape, double ms) {
      if (shape.passes > 0 && shape.rows == 4) keep_best(with_head, ms);
    });
  } catch (const std::exception& failure) {
    log_warn(std::string("measuring the cost of rounds failed: ") + failure.what());
  }
  const bool drafted = with_head > 0 && by_rows[4] > 0;
  const double least = 0.01 * by_rows[1];
  decoder.costs().calibrate(by_rows, drafted ? std::max((with_head - by_rows[4]) / 3, least) : 0);
}

}  // namespace ft
