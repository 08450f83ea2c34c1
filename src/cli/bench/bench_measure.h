// Compares plain and speculative decoding in interleaved pairs. Each pair runs the same request both ways, in
// alternating order, so that noise of the machine affects both.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cli/terminal/reports.h"

namespace ft::cli {

struct BenchCase {
  Prompt prompt;
  GenerateOptions ask;   // its speculation applies to the speculative side
  std::string sampling;  // for the report
};

/// Acceptance of a synthetic drafter (--forced-acceptance); empty: real drafts.
using ForcedSchedule = std::vector<double>;

/// The whole answer to a request; kCancelled once `stopped` is set.
Result<GatheredAnswer> whole_answer(Engine& engine, Request request, const std::atomic<bool>& stopped);

class BenchMeasure {
 public:
  BenchMeasure(Engine& engine, const LoadedModel& loaded, ForcedSchedule forced)
      : engine_(engine), loaded_(loaded), forced_(std::move(forced)) {}

  /// Runs one uncounted answer each way, to allocate memory and raise clock speeds.
  Status warm_up(const BenchCase& bench_case);
  /// Adds a pair to `result`, which starts empty.
  Status add_pair(const BenchCase& bench_case, BenchPrompt& result);
  /// Requests a stop: the running answer ends early and its pair is dropped (kCancelled).
  void cancel();

 private:
  Result<GatheredAnswer> answer(const BenchCase& bench_case, bool speculative);

  Engine& engine_;
  const LoadedModel& loaded_;
  ForcedSchedule forced_;
  std::atomic<bool> cancelled_{false};
  std::size_t pairs_ = 0;
};

}  // namespace ft::cli
