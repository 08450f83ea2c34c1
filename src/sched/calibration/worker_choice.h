// How many workers small steps have (Backend::use_workers), chosen by measurement: memory-bound steps are
// often faster with fewer workers than cores, because each of some hundred barriers waits for the slowest
// one. Every choice is tried in turn, several times, with plain rounds and rounds of four rows on a
// throw-away sequence. The smallest number of workers that is about as fast as the best wins. Thread: the
// engine thread, while no slot is open. Cost: half a second if there is a choice, up to a few long steps with
// each; otherwise nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "speculation/decoder.h"

namespace ft {

struct WorkerChoice {
  static constexpr std::size_t kMaxTried = 16;
  struct Tried {
    int workers = 0;
    double ms = 0;  // of a plain round and a round of four rows together, the median
    bool operator==(const Tried&) const = default;
  };

  int workers = 0;           // 0: all, there was no choice
  std::vector<Tried> tried;  // ascending

  bool operator==(const WorkerChoice&) const = default;
  bool plausible() const;
};

/// Measures the numbers of workers and sets the best. Throws errors of rounds; all workers are then in use.
WorkerChoice choose_workers(Decoder& decoder, const std::function<double()>& now_ms);

/// "14 of 16 workers (8: 5.21 ms, 14: 4.02 ms, 16: 4.30 ms)"; empty if there was no choice.
std::string worker_text(const WorkerChoice& choice);

}  // namespace ft
