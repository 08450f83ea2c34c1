// Scoring: the logits of every position of a text, for perplexities and comparisons of models.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"

namespace ft {

class Assembly;

/// Logits [tokens, vocabulary] of a text in chunks of at most `chunk` rows, 0: as many as have memory for
/// logits. `row(position, logits)` is called for every position, in order.
Status score_text(const Assembly& assembly, std::span<const std::int32_t> tokens, int chunk,
                  const std::function<void(std::int64_t, std::span<const float>)>& row);

}  // namespace ft
