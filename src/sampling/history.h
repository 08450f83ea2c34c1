// The history of a request for penalties: each token of its prompt and output once, ascending, with the
// number of times it was emitted. Owner: the request's slot; `counts` goes into SampleRow::history and is
// valid until the next change. Drafts are never entered: a row lists the drafts before it in
// SampleRow::drafts. Cost: add_prompt sorts the prompt. add_output is a binary search and, for a new token, a
// move of the tokens above it (8 bytes each), without allocation within `reserve`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/sample_row.h"

namespace ft {

class History {
 public:
  /// Reserves room for this many different tokens.
  void reserve(std::size_t tokens) { counts_.reserve(tokens); }
  void clear() { counts_.clear(); }

  void add_prompt(std::span<const std::int32_t> tokens);
  void add_output(std::int32_t token);

  std::span<const TokenCount> counts() const { return counts_; }

 private:
  std::vector<TokenCount> counts_;  // ascending by token
};

}  // namespace ft
