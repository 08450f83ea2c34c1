#include "backends/walk.h"

#include <algorithm>
#include <limits>

#include "backends/weight_rows.h"

namespace ft {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

std::int32_t token_of(std::span<const std::int32_t> ids, std::size_t column) {
  return ids.empty() ? static_cast<std::int32_t>(column) : ids[column];
}

bool lets_through(std::span<const std::uint32_t> mask, std::int32_t token) {
  if (mask.empty()) return true;
  const auto word = static_cast<std::size_t>(token / 32);
  return word < mask.size() && ((mask[word] >> (token % 32)) & 1U) != 0;
}

}  // namespace

void Walker::reserve(WalkScratch& scratch, WalkCandidates& out) const {
  const auto candidates = static_cast<std::size_t>(op_.candidates);
  scratch.columns.reserve(candidates + 1);
  scratch.factors.resize(static_cast<std::size_t>(op_.predecessor.cols));
  scratch.row.resize(static_cast<std::size_t>(op_.predecessor.cols));
  out.ids.reserve(candidates), out.scores.reserve(candidates);
}

void Walker::choose(std::span<const float> logits, std::span<const std::int32_t> ids,
                    std::span<const std::uint32_t> mask, std::vector<std::int32_t>& columns) const {
  const auto wanted = static_cast<std::size_t>(op_.candidates);
  columns.clear();
  float least = kNoLogit;  // a logit must be above it; NaN never is
  for (std::size_t c = 0; c < logits.size(); ++c) {
    if (!(logits[c] > least)) continue;
    const std::int32_t token = token_of(ids, c);
    if (token == op_.excluded || !lets_through(mask, token)) continue;
    std::size_t at = columns.size();
    columns.push_back(0);
    for (; at > 0 && logits[c] > logits[static_cast<std::size_t>(columns[at - 1])]; --at)
      columns[at] = columns[at - 1];
    columns[at] = static_cast<std::int32_t>(c);
    if (columns.size() > wanted) columns.pop_back();
    if (columns.size() == wanted) least = logits[static_cast<std::size_t>(columns.back())];
  }
  for (std::size_t c = 0; c < logits.size() && columns.empty(); ++c) {  // no column has a finite logit
    const std::int32_t token = token_of(ids, c);
    if (token != op_.excluded && lets_through(mask, token)) columns.push_back(static_cast<std::int32_t>(c));
  }
  if (columns.empty()) columns.push_back(0);
  std::ranges::sort(columns);
}

void Walker::score(std::span<const float> logits, std::span<const std::int32_t> ids, const float* factors,
                   std::int32_t predecessor, WalkScratch& scratch, WalkCandidates& out) const {
  const auto rank = static_cast<std::size_t>(op_.predecessor.cols);
  scratch.factors.resize(rank), scratch.row.resize(rank);
  read_rows(op_.predecessor, predecessor, 1, scratch.factors.data());
  for (std::size_t r = 0; r < rank && factors != nullptr; ++r) scratch.factors[r] *= factors[r];
  out.ids.clear(), out.scores.clear();
  for (const std::int32_t column : scratch.columns) {
    read_rows(op_.successor, column, 1, scratch.row.data());
    float sum = 0;
    for (std::size_t r = 0; r < rank; ++r) sum += scratch.factors[r] * scratch.row[r];
    out.ids.push_back(token_of(ids, static_cast<std::size_t>(column)));
    out.scores.push_back(logits[static_cast<std::size_t>(column)] + sum);
  }
}

void Walker::candidates(std::span<const float> logits, std::span<const std::int32_t> ids,
                        std::span<const std::uint32_t> mask, const float* factors, std::int32_t predecessor,
                        WalkCandidates& out) const {
  thread_local WalkScratch scratch;  // a round must not allocate
  choose(logits, ids, mask, scratch.columns);
  score(logits, ids, factors, predecessor, scratch, out);
}

}  // namespace ft
