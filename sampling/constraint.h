// A constraint says which tokens may come next in one answer, row by row: a grammar, a thinking budget. The
// round asks it for the mask of every row, given the drafts before that row (rule 5: a row sees the drafts
// before it as if already emitted), shows it what was emitted, and drafts what it forces at no cost. Masks
// are a function of the emitted tokens and the drafts alone, so the answer is that of plain decoding.
// Owner: the slot. Thread: the engine thread. Cost: see each kind; a mask is computed once per row, whether a
// drafter or the verification asks first. Errors: a row without a mask; the round drafts no further, and ends
// the request with problem() if it is the next token's row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace ft {

class Constraint {
 public:
  virtual ~Constraint() = default;

  /// The mask (SelectRow::mask) of the row behind the emitted tokens and `drafts`; valid until commit.
  /// Nothing if a draft is not allowed in its own row, or no mask can be computed.
  virtual std::optional<std::span<const std::uint32_t>> mask(std::span<const std::int32_t> drafts) = 0;

  /// Writes the tokens that must come next, as many as fit and are known; returns how many.
  virtual int forced(std::span<std::int32_t> out) = 0;

  /// Tokens that were emitted, in order, each allowed by its row's mask.
  virtual void commit(std::span<const std::int32_t> tokens) = 0;

  /// Why there is no mask for the next token; without a message as long as there is one.
  virtual Error problem() const = 0;
};

}  // namespace ft
