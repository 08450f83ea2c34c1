// The input of a sample instruction, which turns a row of logits into a token: plain data without pointers to
// behaviour, so a device can evaluate it where the logits are. The host evaluates it in sampling/, in order:
//   repetition, presence and frequency penalties, bias, mask, temperature, top-k, top-p, min-p, noise, argmax
// Ties go to the lowest id. Temperature 0 skips the filters and the noise.
// The noise is gumbel(seed, position, token, stream) from Philox 4x32-10, so the token is a function of the
// row's own inputs alone: never of the batch, the depth, or whether the row was drafted. Spans are owned by
// the caller and must live until submit() has returned.
#pragma once

#include <cstdint>
#include <span>

#include "program/sampling_params.h"

namespace ft {

/// How often a token has been seen. `output` counts emitted tokens only; a token of the prompt alone has
/// output 0.
struct TokenCount {
  std::int32_t token = 0;
  std::int32_t output = 0;
};

struct LogitBias {
  std::int32_t token = 0;
  float value = 0;
};

/// Independent noise of the same (seed, position): the target's draw, a drafter's own draw and the acceptance
/// test and residual draw of rejection sampling. The coupled rule drafts with the target's noise on purpose.
enum class Stream : std::uint32_t { kTarget = 0, kDraft = 1, kAccept = 2, kResidual = 3 };

/// The drafts before a row, by place: their values may be known to the device alone.
struct DraftPlaces {
  std::int32_t first = -1;  // of them in StepArgs::round_tokens; -1: they are the step's own tokens
  std::int32_t count = 0;   // with first -1: the tokens of the row itself and of those before it
};

struct SampleRow {
  const SamplingParams* sampler = nullptr;
  std::int64_t position = 0;  // absolute position of the token that is being selected
  Stream stream = Stream::kTarget;
  std::span<const TokenCount> history;  // ascending by token, before the drafts
  DraftPlaces drafts;                   // that count as emitted before this row
  std::span<const LogitBias> bias;      // ascending by token
  std::span<const std::uint32_t> mask;  // bit v of word v / 32 set: v is allowed; empty: all are
  std::int32_t store = -1;              // place in StepArgs::round_tokens to write the token to; -1: none
  bool exact = true;  // false: a draft, for which a device may choose another token now and then
};

}  // namespace ft
