// sample: one row of logits to one token, in the order that program/sample_row.h states. Rules decided here:
//   - A NaN logit counts as -infinity and +infinity as the maximum float. A token at -infinity is never drawn
//     unless every token is; then the lowest allowed id is taken (the lowest id if the mask allows none).
//   - top-k keeps exactly k tokens: greater logits first, then lower ids.
//   - top-p keeps the shortest prefix of the same order whose mass reaches top_p, at least one token. The
//     mass is measured in the tempered distribution after top-k, in whole multiples of 2^-44 of the
//     likeliest token's, so it does not depend on the order of addition.
//   - min-p keeps the tokens whose probability is at least min_p times the highest.
//   - Tokens beyond the end of a mask are not allowed. Counts and biases of tokens without a logit have no
//     effect.
// Cost: greedy or filtered, one or two reads of the row; unfiltered sampling adds a quarter Philox block per
// token and the logarithms of the few tokens that could still win. Penalties, bias and mask copy the row
// once. Only the end of the top-p prefix is sorted. No allocation once `scratch` has reached the vocabulary's
// size. Thread: one scratch per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/sample_row.h"

namespace ft {

/// A token that can still be drawn. weight: exp((value - highest) / temperature), if it was computed.
struct Candidate {
  std::int32_t token = 0;
  float value = 0;
  double weight = 0;
};

struct SampleScratch {
  std::vector<float> values;          // [vocabulary] the row after penalties, bias and mask
  std::vector<Candidate> candidates;  // [<= vocabulary] tokens that pass the filters
  std::vector<std::int32_t> drafts;   // [drafts] sorted

  void reserve(std::size_t vocabulary);
};

/// The token of one row. logits[i] belongs to token ids[i] (ascending), or to token i if ids is empty. There
/// is at least one. `drafts`: the values of row.drafts.
std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> ids, const SampleRow& row,
                    SampleScratch& scratch, std::span<const std::int32_t> drafts = {});

}  // namespace ft
