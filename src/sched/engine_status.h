// The state and counters of an engine as plain numbers, for /metrics, /health, /props and `/v1/cache`.
//   EngineStatus  how many requests run and wait now, and all counts since the engine started
//   MemoryReport  the engine's planned memory, and the largest context that would fit
// Thread: any; Engine::status() and the like return copies under a lock. Counters only grow; times are in
// seconds, sizes in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "drafters/drafter.h"
#include "prefix_cache/cache_report.h"
#include "speculation/round.h"

namespace ft {

/// Counts by upper bound, as Prometheus defines them: bucket i counts values of at most kBounds[i] and above
/// the bound before it; the last bucket counts the rest. The counts are not cumulative; the writer adds them
/// up.
struct LatencySums {
  static constexpr std::array<double, 15> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                     0.5,   1,      2.5,   5,    10,    30,   60};
  std::array<std::int64_t, kBounds.size() + 1> buckets{};
  double sum_seconds = 0;
  std::int64_t count = 0;

  void add(double seconds, std::int64_t times = 1) {
    std::size_t at = 0;
    while (at < kBounds.size() && seconds > kBounds[at]) ++at;
    buckets[at] += times;
    sum_seconds += seconds * static_cast<double>(times);
    count += times;
  }
};

struct EngineStatus {
  // Now.
  int slots = 0;       // requests that can run at once
  int running = 0;     // requests that have a slot: those that decode, prefill or pause
  int prefilling = 0;  // of them: prompt not yet read
  int paused = 0;      // of them: the reader is slow
  int waiting = 0;     // in the queue
  int queue = 0;       // its limit, beyond the requests that free slots will take
  bool draining = false;
  std::string lost;  // the backend is gone and why; empty: it works

  // Since the start.
  std::int64_t requests = 0;                     // admitted to the queue
  std::int64_t refused = 0;                      // by a full queue, or while draining
  std::map<std::string, std::int64_t> finished;  // by reason: stop length cancelled error
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of them: hits that callers may see, their own
  std::int64_t reused_tokens = 0;  // of them: not computed again
  std::int64_t emitted = 0;        // output tokens
  std::int64_t rounds = 0;         // of the engine; a round may serve several requests
  std::int64_t slot_rounds = 0, drafted = 0, accepted = 0;  // summed over requests
  std::array<std::int64_t, kMaxDraftTokens> drafted_at{}, accepted_at{};
  std::map<std::string, DrafterShare> by_drafter;   // by the drafter's name
  std::int64_t engaged = 0;                         // ended requests with at least one draft
  std::map<std::string, std::int64_t> not_engaged;  // ended requests without a draft, by reason
  double prefill_seconds = 0, round_seconds = 0;    // time of the engine thread

  LatencySums queue_time;           // from submit to a slot
  LatencySums time_to_first_token;  // from submit
  LatencySums inter_token;          // mean of a request's round, one entry per token
  LatencySums request_time;         // from submit to the end
};

struct MemoryReport {
  std::int64_t weights = 0, key_values = 0, states = 0, scratch = 0, cache = 0;  // bytes
  std::int64_t limit = 0;
  std::int64_t context_bytes = 0;  // for one more position in every slot
  std::int64_t total() const { return weights + key_values + states + scratch + cache; }
};

}  // namespace ft
