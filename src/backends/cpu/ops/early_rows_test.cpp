// Rows that several workers prepare early have the bytes of rows that one worker prepares, under random
// delays.
#include "backends/cpu/ops/early_rows.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "backends/cpu/kernels/features.h"
#include "backends/random_weights.h"

namespace ft::cpu::early_rows_test {
namespace {

constexpr int kWidth = 384;

/// Rows of groups of 32 and of 64 columns.
std::vector<PreparedRows> two_shapes(const BuildContext& context) {
  return {prepared_rows(32, kWidth, context), prepared_rows(64, kWidth, context)};
}

/// Codes, scales and sums of rows that one worker prepares whole.
struct Whole {
  Whole(const Kernels& kernels, PreparedRows shape, const std::vector<float>& in, int rows)
      : memory(Memory::allocate(shape.bytes(rows))) {
    shape.place(memory.data(), rows);
    prepared = shape.arranged(kernels, rows);
    for (int row = 0; row < rows; ++row) {
      prepared.write(kernels, in.data() + static_cast<std::ptrdiff_t>(row) * kWidth,
                     prepared.place_of(row, rows));
    }
  }
  Memory memory;
  PreparedRows prepared;
};

void expect_same(const PreparedRows& early, const PreparedRows& whole, int rows) {
  const auto scales = static_cast<std::size_t>(rows) * static_cast<std::size_t>(whole.groups) * sizeof(float);
  EXPECT_EQ(std::memcmp(early.data, whole.data, static_cast<std::size_t>(rows * whole.row_bytes)), 0);
  EXPECT_EQ(std::memcmp(early.scales, whole.scales, scales), 0);
  EXPECT_EQ(std::memcmp(early.sums, whole.sums, scales), 0);
}

TEST(CpuEarlyRows, HaveTheBytesOfOneWorkerWhateverTheSplitAndTheOrderOfWorkers) {
  const Kernels& kernels = *available_kernels().front();
  RandomWeights random(3);
  std::uint32_t seed = 1;
  for (const bool int16 : {false, true}) {
    BuildContext context;
    context.int16 = int16;
    for (const Split split : {Split{Split::Kind::kColumns, 0}, Split{Split::Kind::kHeads, 12}}) {
      for (const int workers : {3, 5, 7, 24, 40}) {  // 40: some have no columns
        EarlyRows early(two_shapes(context), kWidth, kSmallBatchRows);
        ASSERT_TRUE(early.possible());
        EXPECT_FALSE(early.used(workers));
        early.use(workers, split);
        EXPECT_TRUE(early.used(workers));
        EXPECT_FALSE(early.used(workers + 1));
        for (const int rows : {1, 3, 16}) {
          std::vector<float> in(static_cast<std::size_t>(rows) * kWidth);
          std::vector<int> order;
          for (int worker = 0; worker < workers; ++worker) order.push_back(worker);
          Step step;
          step.kernels = &kernels;
          step.rows = rows;
          step.small_batch = true;
          step.number = static_cast<std::uint64_t>(++seed);
          for (float& value : in) value = random.uniform();
          for (int worker = workers - 1; worker > 0; --worker) {
            seed = seed * 1664525U + 1013904223U;
            std::swap(order[static_cast<std::size_t>(worker)], order[(seed >> 8) % (worker + 1U)]);
          }
          for (const int worker : order) early.prepare(step, {in.data(), kWidth, 0}, worker, workers);
          for (std::size_t i = 0; i < 2; ++i) {
            SCOPED_TRACE(::testing::Message() << workers << " workers, " << rows << " rows, shape " << i);
            const Whole whole(kernels, two_shapes(context)[i], in, rows);
            expect_same(early.rows(i), whole.prepared, rows);
          }
        }
      }
    }
  }
}

TEST(CpuEarlyRows, AreNotForPairsOfColumns) {
  BuildContext context;
  context.pair_bytes = 4;
  EXPECT_FALSE(EarlyRows(std::vector{prepared_rows(kPairs, kWidth, context)}, kWidth, 4).possible());
  EXPECT_FALSE(EarlyRows({}, kWidth, 4).possible());
}

}  // namespace
}  // namespace ft::cpu::early_rows_test
