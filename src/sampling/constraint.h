// Constraint: which tokens may come next in one answer, row by row (a grammar, a thinking budget). The round
// asks it for the mask of every row, given the drafts before the row (rule 5: a row sees those drafts as if
// already emitted), commits the emitted tokens, and drafts its jump-forward tokens at no cost. Masks are a
// function of the emitted tokens and the drafts alone, so the answer is the same as in plain decoding. Owner:
// the slot. Cost: see each kind; a mask is computed once per row, whether a drafter or the verification asks
// first. Errors: a row may lack a mask. The round then drafts no further; if the row of the next token lacks
// its mask, the request ends with problem().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace ft {

class Constraint {
 public:
  virtual ~Constraint() = default;

  /// The mask (SampleRow::mask) of the row after the emitted tokens and `drafts`; valid until commit. Empty
  /// if a draft is not allowed in its own row, or if the mask cannot be computed.
  virtual std::optional<std::span<const std::uint32_t>> mask(std::span<const std::int32_t> drafts) = 0;

  /// Whether the last of `drafts` is allowed in its own row, after the drafts before it. False as well if an
  /// earlier draft is not allowed, or if a row up to its own has no mask. Computes no mask after it.
  virtual bool allows(std::span<const std::int32_t> drafts) = 0;

  /// Writes the jump-forward tokens, the only ones allowed next, up to the size of `out`; returns
  /// their number.
  virtual int jump_forward(std::span<std::int32_t> out) = 0;

  /// Records emitted tokens, in order; each was allowed by its row's mask.
  virtual void commit(std::span<const std::int32_t> tokens) = 0;

  /// The number of rows in turn, from the next one on, that have no mask if `tokens` are emitted; at most one
  /// more than `tokens`. While it is not 0, a round decodes as if there were no constraint, and draws again
  /// what follows these rows.
  virtual std::size_t free_rows(std::span<const std::int32_t> tokens) const {
    static_cast<void>(tokens);
    return 0;
  }

  /// Why there is no mask for the next token; its message is empty if there is one.
  virtual Error problem() const = 0;
};

}  // namespace ft
