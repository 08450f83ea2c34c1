// Several streams compared with one: tokens/s of all together, plain and with drafts at a given acceptance.
// All streams have the same prompt and, by the row rule, the same answer, so one recording serves all. Each
// has separate keys, values and states. An answer that differs from the recording is an error. One stream and
// several, plain and drafted, take turns. The caller's thread is the engine thread. A run takes seconds to
// minutes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lab/measured_model.h"
#include "speculation/decoder.h"

namespace ft {

struct StreamsPlan {
  int streams = 8;
  int prompt_tokens = 512;
  int cycles = 3;                              // every figure is the median over them
  int tokens = 64;                             // of each answer, at least
  std::vector<std::vector<double>> schedules;  // acceptance probability by position
  std::uint64_t seed = 0;                      // of the prompt and of the perturbed drafts
  bool fixed = false;                          // also run every schedule at its fixed depths, besides auto
};

struct StreamsSide {
  std::vector<double> per_second;  // tokens of all streams, one figure a cycle
  std::int64_t rounds = 0, emitted = 0, drafted = 0;
};

struct StreamsFigures {
  struct Drafted {
    std::vector<double> schedule;
    int depth = -1;  // -1: chosen
    StreamsSide one, all;
  };
  StreamsSide plain_one, plain_all;
  std::vector<Drafted> drafted;
};

/// Calls `progress(done, all)` between pieces of work; false stops with kCancelled.
Result<StreamsFigures> measure_streams(const MeasuredModel& loaded, const StreamsPlan& plan,
                                       const std::function<bool(int, int)>& progress);

std::string streams_text(const StreamsPlan& plan, const StreamsFigures& figures);
std::string streams_json(const std::string& model, const std::string& backend, const StreamsPlan& plan,
                         const StreamsFigures& figures);

}  // namespace ft
