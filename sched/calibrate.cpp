#include "sched/calibrate.h"

#include <array>
#include <chrono>
#include <exception>

#include "base/log.h"

namespace ft {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Milliseconds of the fastest of a few rounds at one depth on a throw-away sequence of one repeated token,
/// which lookup can always continue. 0 if it cannot be measured.
double measure(Decoder& decoder, int depth, DrafterKind kind, RoundShape& shape) {
  constexpr int kRepeats = 5;
  constexpr std::array<std::int32_t, 6> kPrompt{};
  SlotOptions options;
  options.max_tokens = 1 << 20;
  options.depth = depth;
  Result<std::unique_ptr<Slot>> slot = decoder.open(kPrompt, options, kind);
  if (!slot.ok()) return 0;
  Slot* only = slot->get();
  double best = 0;
  if (decoder.prefill(*only, static_cast<int>(kPrompt.size())).ok()) {
    for (int i = 0; i < kRepeats && only->finish == Finish::kNone; ++i) {
      only->tokens.back() = 0;  // keeps the sequence periodic whatever the model says
      const Clock::time_point start = Clock::now();
      shape = decoder.round({&only, 1});
      const double ms = ms_since(start);
      if (best == 0 || ms < best) best = ms;
    }
  }
  decoder.close(*only);
  return best;
}

}  // namespace

void calibrate(Decoder& decoder) {
  constexpr int kSweeps = 4;
  constexpr double kEnoughMs = 400;
  std::array<double, CostModel::kRows + 1> by_rows{};
  double with_head = 0;
  const auto keep_best = [](double& best, double ms) {
    if (ms > 0 && (best == 0 || ms < best)) best = ms;
  };
  const Clock::time_point start = Clock::now();
  try {
    for (int sweep = 0; sweep < kSweeps && ms_since(start) < kEnoughMs; ++sweep) {
      for (const int depth : {0, 1, 3, 7}) {
        RoundShape shape;
        const double ms =
            measure(decoder, depth, depth == 0 ? DrafterKind::kNone : DrafterKind::kLookup, shape);
        if (shape.rows == depth + 1) keep_best(by_rows[static_cast<std::size_t>(depth) + 1], ms);
      }
      RoundShape shape;
      const double ms = measure(decoder, 3, DrafterKind::kMtp, shape);
      if (shape.passes > 0 && shape.rows == 4) keep_best(with_head, ms);
    }
  } catch (const std::exception& failure) {
    log_warn(std::string("measuring the cost of rounds failed: ") + failure.what());
  }
  const bool drafted = with_head > 0 && by_rows[4] > 0;
  const double least = 0.01 * by_rows[1];
  decoder.costs().calibrate(by_rows, drafted ? std::max((with_head - by_rows[4]) / 3, least) : 0);
}

}  // namespace ft
