// The ratio rule of speculative sampling. A draft drawn from q is accepted with probability min(1, p / q),
// else replaced by a draw from the residual max(0, p - q): what comes out is distributed as p.
//   draft      draw(q, seed, position, Stream::kDraft)
//   test       u(Stream::kAccept) * q(draft) < p(draft)
//   residual   an inverse-transform draw with u(Stream::kResidual)
//   bonus      draw(p, seed, position, Stream::kTarget), as is every token that nobody drafted
// The streams are independent of each other: with the draft's own noise in the test the outcome would not be
// p. If p and q agree so well that nothing is left of the residual, the draw is from p. Cost: linear in the
// listed tokens, no allocation. Thread: pure. Source: Leviathan et al. 2023, "Fast inference from
// transformers via speculative decoding"; Chen et al. 2023, "Accelerating large language model decoding with
// speculative sampling".
#pragma once

#include <cstdint>

#include "program/select.h"
#include "sampling/distribution.h"

namespace ft {

struct RatioOutcome {
  bool accepted = false;
  std::int32_t token = 0;  // the draft if accepted, else the token that replaces it
};

/// `p` is the target's distribution of this row, `q` the one that `draft` was drawn from; neither is empty.
RatioOutcome accept_ratio(const Distribution& p, const Distribution& q, std::int32_t draft,
                          std::uint64_t seed, std::int64_t position);

/// One token of `from` by inverse transform: the first whose cumulative probability exceeds the uniform
/// number.
std::int32_t draw(const Distribution& from, std::uint64_t seed, std::int64_t position, Stream stream);

}  // namespace ft
