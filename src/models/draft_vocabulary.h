// The reduced vocabulary of a drafter with an LM head of its own: the token of each row of that head.
#pragma once

#include <cstdint>
#include <vector>

#include "format/weights.h"

namespace ft {

/// [draft_vocabulary] ascending token ids of the target's `vocabulary`, from the tensor d2t; empty: row v is
/// token v. kCorrupt with what is wrong, for a map that is missing, of another size, out of order, outside
/// the target's vocabulary, or that t2d contradicts.
Result<std::vector<std::int32_t>> read_labels(const format::WeightIndex& index, int draft_vocabulary,
                                              int vocabulary);

}  // namespace ft
