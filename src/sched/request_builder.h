// Builds a request from the caller's options and the model's. Flags, settings and the JSON of every
// API fill RequestOptions; build_request() is the one place that turns them into the fields of a request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/sampling_params.h"
#include "sched/request.h"

namespace ft {

/// The options that any request may have. Absent, empty, auto or -1: the model's or the engine's default.
struct RequestOptions {
  AskedSampling sampling;
  std::optional<std::uint64_t> seed;  // absent: 0
  std::vector<LogitBias> bias;
  std::vector<std::string> stops;
  std::int64_t max_tokens = 0;  // 0: up to the end of the context
  int logprobs = -1;            // the number of alternatives; -1: no log-probabilities
  int thinking_budget = -1;     // tokens of reasoning; -1: no limit
  DrafterKind drafter = DrafterKind::kAuto;
  Acceptance acceptance = Acceptance::kCoupled;
  int depth = -1;  // -1: auto
};

/// The properties of the model that a request needs, and the defaults of options that were not given.
struct RequestModel {
  int vocabulary = 0;        // columns of logits
  std::int64_t context = 0;  // tokens of prompt and answer together
  std::vector<std::int32_t> eos;
  SamplingParams sampler;  // the seed is unused
  std::vector<LogitBias> bias;
  DrafterKind default_drafter = DrafterKind::kAuto;
  int default_depth = -1;
};

/// `fields`: prompt, pictures, grammar and other fields that RequestOptions lacks. A request that only scores
/// its prompt has score_prompt set and `only_prompt`. Errors: kTooLong, and as Request::make.
Result<Request> build_request(RequestFields fields, const RequestOptions& options, const RequestModel& model,
                              bool only_prompt = false);

}  // namespace ft
