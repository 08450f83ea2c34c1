// select: one row of logits to one token, in the order that program/select.h states. What is decided here:
//   a NaN logit counts as -infinity and +infinity as the largest float; a token at -infinity is never drawn
//   unless every token is, and then the lowest allowed id is taken (the lowest id if the mask allows none).
//   top-k keeps exactly k tokens, greater logits first, then lower ids.
//   top-p keeps the shortest run of the same order whose mass reaches top_p, at least one; the mass is that
//   of the tempered distribution after top-k, counted in whole multiples of 2^-44 of the likeliest token, so
//   that it does not depend on the order of addition. min-p keeps the tokens whose probability is at least
//   min_p times the highest.
// Tokens beyond the end of a mask are not allowed; counts and biases of tokens that have no logit are
// ignored. Cost: greedy or filtered, one or two reads of the row; unfiltered sampling adds a quarter Philox
// block a token and the logarithms of the few that could still win. Penalties, bias and mask copy the row
// once. Nothing is sorted but the end of the top-p run. No allocation once `scratch` has seen the vocabulary.
// Thread: pure but for the scratch, one per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/select.h"

namespace ft {

/// A token that is still in the draw. weight: exp((value - highest) / temperature), where it has been asked
/// for.
struct Candidate {
  std::int32_t token = 0;
  float value = 0;
  double weight = 0;
};

struct SelectScratch {
  std::vector<float> values;          // [vocabulary] the row after penalties, bias and mask
  std::vector<Candidate> candidates;  // [<= vocabulary] what the filters left
  std::vector<std::int32_t> drafts;   // [drafts] sorted

  void reserve(std::size_t vocabulary);
};

/// The token of one row. logits[i] belongs to token ids[i] (ascending), or to token i if ids is empty; at
/// least one.
/// `drafts`: the values of row.drafts.
std::int32_t select(std::span<const float> logits, std::span<const std::int32_t> ids, const SelectRow& row,
                    SelectScratch& scratch, std::span<const std::int32_t> drafts = {});

}  // namespace ft
