// What a request has seen, for penalties: each token of its prompt and output once, ascending, with the
// number of times that it was emitted. Owned by the request's slot; `counts` goes into SelectRow::history and
// is valid until the next change. Drafts are never entered: a row names those before it in SelectRow::drafts.
// Cost: add_prompt sorts the prompt; add_output is a binary search and, for a token not seen before, a move
// of those above it (8 bytes each), without allocation while `reserve` holds. Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/select.h"

namespace ft {

class History {
 public:
  /// Room for this many different tokens.
  void reserve(std::size_t tokens) { counts_.reserve(tokens); }
  void clear() { counts_.clear(); }

  void add_prompt(std::span<const std::int32_t> tokens);
  void add_output(std::int32_t token);

  std::span<const TokenCount> counts() const { return counts_; }

 private:
  std::vector<TokenCount> counts_;  // ascending by token
};

}  // namespace ft
