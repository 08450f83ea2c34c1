// The reduced vocabulary of an EAGLE-3 drafter: the token of each row of its LM head.
#pragma once

#include <cstdint>
#include <vector>

#include "format/weights.h"
#include "models/eagle3/config.h"

namespace ft::eagle3 {

/// [config.draft_vocabulary] ascending token ids of the target; empty: row v is token v. kCorrupt with what
/// is wrong, for a map that is missing, of another size, out of order, outside the target's vocabulary, or
/// that t2d contradicts.
Result<std::vector<std::int32_t>> read_labels(const format::WeightIndex& index, const Config& config);

}  // namespace ft::eagle3
