// Early rows: a small batch's rows for the products of a linear, written before the barrier in front of it.
// Every worker prepares the groups of the columns that it has just written, so none reads another's floats,
// and the linear reads their codes, a quarter of the bytes. A group with columns of several workers is
// prepared by the last of them. The bits are the same as if one worker prepared all rows. Owner: the linear.
// Thread: any worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/barrier_plan.h"
#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/ops/prepared_rows.h"

namespace ft::cpu {

class EarlyRows {
 public:
  /// Private copies of these rows for `rows` rows.
  EarlyRows(std::span<const PreparedRows> like, std::int64_t columns, int rows);

  /// True if every way to prepare rows goes group by group and there was memory.
  bool possible() const { return !memory_.empty(); }
  /// In steps of `workers` workers the columns are written with this split: columns or heads.
  void use(int workers, Split split);
  bool used(int workers) const {
    const auto at = static_cast<std::size_t>(workers);
    return at < splits_.size() && splits_[at].kind != Split::Kind::kWhole;
  }

  const PreparedRows& rows(std::size_t index) const { return rows_[index]; }
  /// `worker` calls it after it has written its columns of `in`.
  void prepare(const Step& step, Matrix in, int worker, int workers);

 private:
  Range columns(int worker, int workers) const;
  bool is_last(std::uint64_t step, std::size_t index, int group, int workers);

  std::int64_t width_;
  Memory memory_;
  std::vector<PreparedRows> rows_;
  std::vector<Split> splits_;                           // by number of workers; kWhole: not used
  std::vector<std::vector<std::vector<int>>> writers_;  // by that number, rows_ and group
  std::vector<std::unique_ptr<std::atomic<std::uint64_t>[]>> arrived_;  // by rows_ and group: step, workers
};

}  // namespace ft::cpu
