// Which steps choose their tokens on the device: steps of drafts alone, at temperature 0 the highest logit,
// else a draw with the host's noise in float. Rows of a target are sampled on the host, as Metal has no
// double. So are drafts with penalties, a mask, separate noise (rejection sampling), more than four
// biases, a top-k of more than 256, or a top-p without top-k: its candidates could be all tokens.
#pragma once

#include "backends/metal/kernels/arguments.h"
#include "program/sample_row.h"

namespace ft::metal {

/// The choices that the rows of a step need.
enum class Drafts : std::uint8_t {
  kNone,      // the host samples
  kGreedy,    // the highest logits
  kDraws,     // noise too
  kFiltered,  // and filters
};

inline constexpr int kMaxKept = 256;  // of top-k

/// kNone if one of the rows needs the host.
Drafts device_drafts(std::span<const SampleRow> rows, std::int64_t columns);
/// A row that device_drafts() leaves to the device.
DraftRowArgs draft_row(const SampleRow& row, std::int64_t columns);

}  // namespace ft::metal
