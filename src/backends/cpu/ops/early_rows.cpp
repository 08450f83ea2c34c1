#include "backends/cpu/ops/early_rows.h"

#include <algorithm>

namespace ft::cpu {

EarlyRows::EarlyRows(std::span<const PreparedRows> like, std::int64_t columns, int rows)
    : width_(columns), rows_(like.begin(), like.end()) {
  if (rows_.empty() || std::ranges::any_of(rows_, [](const auto& each) { return each.group == kPairs; }))
    return;
  memory_ = Memory::allocate(prepared_bytes(rows_, rows));
  if (memory_.empty()) return;
  std::byte* at = memory_.data();
  for (PreparedRows& each : rows_) {
    at = each.place(at, rows);
    arrived_.push_back(std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(each.groups)));
  }
}

void EarlyRows::use(int workers, Split split) {
  const auto at = static_cast<std::size_t>(workers);
  if (splits_.size() <= at) splits_.resize(at + 1), writers_.resize(at + 1);
  splits_[at] = split;
  std::vector<std::vector<int>>& writers = writers_[at];
  writers.clear();
  for (const PreparedRows& rows : rows_) {
    std::vector<int>& counts = writers.emplace_back(static_cast<std::size_t>(rows.groups), 0);
    for (int worker = 0; worker < workers; ++worker) {
      const auto [first, last] = columns(worker, workers);
      for (std::int64_t group = first / rows.group; first < last && group * rows.group < last; ++group)
        ++counts[static_cast<std::size_t>(group)];
    }
  }
}

Range EarlyRows::columns(int worker, int workers) const {
  const Split split = splits_[static_cast<std::size_t>(workers)];
  if (split.kind == Split::Kind::kColumns) return partition(width_, kLanes, worker, workers);
  const Range heads = partition(split.heads, 1, worker, workers);
  const std::int64_t width = width_ / split.heads;
  return {heads.first * width, heads.last * width};
}

/// Counts the workers with columns of the group. The last one sees the columns of the others.
bool EarlyRows::is_last(std::uint64_t step, std::size_t index, int group, int workers) {
  constexpr int kStepShift = 16;
  const int writers = writers_[static_cast<std::size_t>(workers)][index][static_cast<std::size_t>(group)];
  if (writers == 1) return true;
  std::atomic<std::uint64_t>& word = arrived_[index][static_cast<std::size_t>(group)];
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  std::uint64_t now = 0;
  do {
    now = (seen >> kStepShift == step ? seen : step << kStepShift) + 1;
  } while (!word.compare_exchange_weak(seen, now, std::memory_order_acq_rel, std::memory_order_relaxed));
  return static_cast<int>(now & ((1U << kStepShift) - 1)) == writers;
}

void EarlyRows::prepare(const Step& step, Matrix in, int worker, int workers) {
  const auto [first, last] = columns(worker, workers);
  if (first == last) return;
  for (std::size_t index = 0; index < rows_.size(); ++index) {
    const PreparedRows rows = rows_[index].arranged(*step.kernels, step.rows);
    const auto end = static_cast<int>((last + rows.group - 1) / rows.group);
    int ready = static_cast<int>(first / rows.group);  // the first group of a run
    for (int group = ready; group <= end; ++group) {
      if (group < end && is_last(step.number, index, group, workers)) continue;
      for (std::int64_t row = 0; ready < group && row < step.rows; ++row)
        rows.write(*step.kernels, in.row(row), rows.place_of(row, step.rows), {ready, group});
      ready = group + 1;
    }
  }
}

}  // namespace ft::cpu
