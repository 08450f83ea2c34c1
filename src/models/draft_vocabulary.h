// The reduced vocabulary of a drafter with a separate LM head: the token of each row of that head.
#pragma once

#include <cstdint>
#include <vector>

#include "format/weights.h"

namespace ft {

/// [draft_vocabulary] ascending token ids of the target's `vocabulary`, from the tensor d2t; empty: row v is
/// token v. kCorrupt with the reason for a map that is missing, of another size, out of order, outside
/// the target's vocabulary, or that t2d contradicts.
Result<std::vector<std::int32_t>> read_labels(const format::WeightIndex& index, int draft_vocabulary,
                                              int vocabulary);

}  // namespace ft
