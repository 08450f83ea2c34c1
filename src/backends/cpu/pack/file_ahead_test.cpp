#include "backends/cpu/pack/file_ahead.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <vector>

#include "program/row_source.h"

namespace ft::cpu::file_ahead_test {
namespace {

/// What was asked of all weights, in order.
struct Asked {
  std::mutex mutex;
  std::condition_variable more;
  std::int64_t rows = 0;
  bool in_order = true, near = true;
  std::atomic<std::int64_t> packed = 0;  // rows

  void wait_for(std::int64_t wanted) {
    std::unique_lock lock(mutex);
    more.wait(lock, [&] { return rows >= wanted; });
  }
};

constexpr std::int64_t kRows = 100, kColumns = 1 << 20, kRowBytes = 2 * kColumns;

/// Rows that nobody reads: only their order is of interest.
class WatchedRows final : public RowSource {
 public:
  WatchedRows(Asked& asked, std::int64_t begin) : asked_(asked), begin_(begin) {}
  void copy(std::int64_t, std::int64_t, const RowBytes&) const override {}
  void read(std::int64_t, std::int64_t, float*) const override {}
  void read_ahead(std::int64_t first, std::int64_t count) const override {
    const std::lock_guard lock(asked_.mutex);
    asked_.in_order = asked_.in_order && begin_ + first == asked_.rows;
    asked_.near = asked_.near && (begin_ + first - asked_.packed) * kRowBytes < FileAhead::kAheadBytes;
    asked_.rows += count;
    asked_.more.notify_one();
  }

 private:
  Asked& asked_;
  std::int64_t begin_;
};

std::vector<Weight> watched(Asked& asked, int count) {
  std::vector<Weight> weights(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    Weight& weight = weights[static_cast<std::size_t>(i)];
    weight.format = Format::kF16, weight.rows = kRows, weight.cols = kColumns;
    weight.from = std::make_shared<WatchedRows>(asked, i * kRows);
  }
  return weights;
}

TEST(FileAhead, AsksForEveryRowInOrderAndNotTooFarAhead) {
  Asked asked;
  const std::vector<Weight> weights = watched(asked, 4);
  std::vector<const Weight*> order;
  for (const Weight& weight : weights) order.push_back(&weight);
  FileAhead ahead(order);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    asked.packed = static_cast<std::int64_t>(i) * kRows;
    ahead.reached(i);
    asked.wait_for(std::min<std::int64_t>(std::ssize(weights) * kRows, asked.packed + kRows));
  }
  const std::lock_guard lock(asked.mutex);
  EXPECT_TRUE(asked.in_order);
  EXPECT_TRUE(asked.near);
}

TEST(FileAhead, EndsInTheMiddleOfTheWeights) {
  Asked asked;
  const std::vector<Weight> weights = watched(asked, 3);
  {
    FileAhead ahead({&weights[0], &weights[1], &weights[2]});
    asked.wait_for(1);
  }
  EXPECT_LT(asked.rows, 3 * kRows);
}

}  // namespace
}  // namespace ft::cpu::file_ahead_test
