// Rejection sampling. A draft drawn from q is accepted with probability min(1, p / q); otherwise a draw from
// the residual max(0, p - q) replaces it. The result is distributed as p.
//   draft      draw(q, seed, position, Stream::kDraft)
//   test       u(Stream::kAccept) * q(draft) < p(draft)
//   residual   an inverse-transform draw with u(Stream::kResidual)
//   bonus      draw(p, seed, position, Stream::kTarget), like every token that was not drafted
// The streams are independent of each other: with the draft's own noise in the test, the result would not be
// distributed as p. If p and q agree so well that the residual is empty, the draw is from p. Cost: linear in
// the listed tokens, no allocation. Source: Leviathan et al. 2023, "Fast inference from transformers via
// speculative decoding"; Chen et al. 2023, "Accelerating large language model decoding with speculative
// sampling".
#pragma once

#include <cstdint>

#include "program/sample_row.h"
#include "sampling/distribution.h"

namespace ft {

struct RejectionOutcome {
  bool accepted = false;
  std::int32_t token = 0;  // the draft if accepted, otherwise the token that replaces it
};

/// `p` is the target's distribution of this row; `draft` was drawn from `q`. Neither is empty.
RejectionOutcome rejection_sample(const Distribution& p, const Distribution& q, std::int32_t draft,
                                  std::uint64_t seed, std::int64_t position);

/// One token of `from` by inverse transform: the first whose cumulative probability exceeds the uniform
/// number.
std::int32_t draw(const Distribution& from, std::uint64_t seed, std::int64_t position, Stream stream);

}  // namespace ft
