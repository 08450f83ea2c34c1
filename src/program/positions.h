// The places of a sequence's tokens on the three axes of M-RoPE. Text counts up by one on every axis. The
// tokens of an image share one time; height and width count its grid, and the text after it continues after
// the larger of both. Source: Qwen2-VL (Wang et al. 2024), section 2.1; transformers' get_rope_index.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "program/backend.h"

namespace ft {

/// Tokens [first, first + height * width) of a sequence: the grid of one image, row by row.
struct ImageSpan {
  std::int64_t first = 0;
  std::int32_t height = 0, width = 0;

  std::int64_t tokens() const { return std::int64_t{height} * width; }
  std::int64_t end() const { return first + tokens(); }
};

class PositionMap {
 public:
  /// Spans come in order and do not overlap.
  void add(const ImageSpan& span) {
    FT_ASSERT(spans_.empty() || span.first >= spans_.back().span.end());
    const std::int64_t rows = flat() ? 0 : spans_.back().rows + spans_.back().span.tokens();
    spans_.push_back({span, at(span.first)[0], rows});
  }
  /// Only text: each token has its index on all axes.
  bool flat() const { return spans_.empty(); }

  /// The number of image tokens before this one; -1: token `index` is text.
  std::int64_t image_row(std::int64_t index) const {
    const Placed* placed = before(index);
    if (placed == nullptr || index >= placed->span.end()) return -1;
    return placed->rows + index - placed->span.first;
  }

  Coordinates at(std::int64_t index) const {
    const Placed* placed = before(index);
    if (placed == nullptr) return even(index);
    const ImageSpan& span = placed->span;
    if (index >= span.end()) {
      return even(placed->time + std::max(span.height, span.width) + index - span.end());
    }
    const auto cell = static_cast<std::int32_t>(index - span.first);
    return {placed->time, placed->time + cell / span.width, placed->time + cell % span.width};
  }

  static Coordinates even(std::int64_t position) {
    const auto number = static_cast<std::int32_t>(position);
    return {number, number, number};
  }

 private:
  struct Placed {
    ImageSpan span;
    std::int32_t time;  // of the span's tokens
    std::int64_t rows;  // image tokens before it
  };
  /// The last span that begins at or before `index`; null: none.
  const Placed* before(std::int64_t index) const {
    const auto after =
        std::upper_bound(spans_.begin(), spans_.end(), index,
                         [](std::int64_t i, const Placed& placed) { return i < placed.span.first; });
    return after == spans_.begin() ? nullptr : &*std::prev(after);
  }

  std::vector<Placed> spans_;
};

}  // namespace ft
