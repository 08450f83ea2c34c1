// Plain against speculative, paired and interleaved: every pair runs the same request both ways, back to
// back, in alternating order, so that what the machine does meanwhile hits both. Owner: bench.cpp. Thread:
// the main thread waits for the engine. Cost: two answers a pair. Errors: those of make_request; an answer
// that failed.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cli/reports.h"

namespace ft::cli {

struct BenchCase {
  Prompt prompt;
  Ask ask;               // its speculation is the speculative side
  std::string sampling;  // for the report
};

/// What drafts are accepted is set instead of found (--forced-acceptance); empty: found.
using ForcedSchedule = std::vector<double>;

class BenchMeasure {
 public:
  BenchMeasure(Engine& engine, const Loaded& loaded, ForcedSchedule forced)
      : engine_(engine), loaded_(loaded), forced_(std::move(forced)) {}

  /// One uncounted answer each way, so that memory is there and clocks are up.
  Status warm_up(const BenchCase& bench_case);
  /// One more pair into `result`, which begins empty.
  Status add_pair(const BenchCase& bench_case, BenchPrompt& result);
  /// Asked to stop: the running answer ends early and the pair in progress is dropped (kCancelled).
  void cancel();

 private:
  Result<GatheredAnswer> answer(const BenchCase& bench_case, bool speculative);

  Engine& engine_;
  const Loaded& loaded_;
  ForcedSchedule forced_;
  std::atomic<bool> cancelled_{false};
  std::size_t pairs_ = 0;
};

}  // namespace ft::cli
