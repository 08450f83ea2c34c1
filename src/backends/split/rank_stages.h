// Cuts the program of each rank at its exchanges (ranks.h).
#pragma once

#include "backends/split/ranks.h"

namespace ft::split {

/// Fills stages and rows of each part. `begins`: by rank and exchange, where the stage after it begins.
Status make_stages(Ranks& ranks, const std::vector<std::vector<std::size_t>>& begins);

}  // namespace ft::split
