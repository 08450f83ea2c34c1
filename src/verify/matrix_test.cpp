#include "verify/matrix.h"

#include <gtest/gtest.h>
#include <set>

namespace ft::matrix_test {
namespace {

/// Every value of an axis in the cells.
template <class Get>
auto values(const std::vector<Cell>& cells, Get get) {
  std::set<decltype(get(cells.front()))> found;
  for (const Cell& cell : cells) found.insert(get(cell));
  return found;
}

TEST(Matrix, EachSizeMovesEveryAxis) {
  for (const MatrixSize size : {MatrixSize::kFull, MatrixSize::kQuick}) {
    const std::vector<Cell> cells = matrix_cells(size, 2, true, true);
    EXPECT_EQ(values(cells, [](const Cell& c) { return c.sampling; }).size(), 7U);
    EXPECT_EQ(values(cells, [](const Cell& c) { return c.drafter; }).size(), 4U);
    EXPECT_EQ(values(cells, [](const Cell& c) { return c.depth; }), (std::set<int>{-1, 0, 1, 3, 8}));
    EXPECT_EQ(values(cells, [](const Cell& c) { return c.batch; }), (std::set<int>{1, 3}));
    EXPECT_EQ(values(cells, [](const Cell& c) { return c.chunk; }), (std::set<int>{1, 7, 256}));
    EXPECT_EQ(values(cells, [](const Cell& c) { return c.way; }).size(), 3U);
    EXPECT_EQ(values(cells, [](const Cell& c) { return c.threads; }), std::set<int>{2});
  }
}

TEST(Matrix, FullIsTheWholeProduct) {
  // 3 drafters x 5 depths and none at depth 0, times 2 batches, 3 chunks, 3 ways in, 7 kinds of sampling.
  EXPECT_EQ(matrix_cells(MatrixSize::kFull, 1, true, true).size(), 16U * 2 * 3 * 3 * 7);
}

TEST(Matrix, WithoutATokenizerNothingIsConstrained) {
  for (const Cell& cell : matrix_cells(MatrixSize::kFull, 1, true, false)) {
    EXPECT_NE(cell.sampling, SamplingKind::kGrammar);
    EXPECT_NE(cell.sampling, SamplingKind::kBudget);
  }
}

TEST(Matrix, AModelWithoutAHeadIsNotAskedForOne) {
  for (const MatrixSize size :
       {MatrixSize::kFull, MatrixSize::kQuick, MatrixSize::kBrief, MatrixSize::kLong}) {
    for (const Cell& cell : matrix_cells(size, 1, false, true))
      EXPECT_NE(cell.drafter, DrafterKind::kMtp) << cell.text();
  }
}

TEST(Matrix, LongAnswersAreGreedyAndSampledWithEveryDrafter) {
  const std::vector<Cell> cells = matrix_cells(MatrixSize::kLong, 1, true, true);
  EXPECT_EQ(values(cells, [](const Cell& c) { return c.sampling; }),
            (std::set<SamplingKind>{SamplingKind::kGreedy, SamplingKind::kSampled}));
  EXPECT_EQ(values(cells, [](const Cell& c) { return c.drafter; }),
            (std::set<DrafterKind>{DrafterKind::kMtp, DrafterKind::kLookup, DrafterKind::kAuto}));
  EXPECT_EQ(values(cells, [](const Cell& c) { return c.batch; }), (std::set<int>{1, 3}));
}

TEST(Matrix, ReportsJoin) {
  MatrixReport report, other;
  report.cells.resize(2), report.compared = 10;
  other.cells.resize(1), other.compared = 5, other.differing = 1, other.complete = false;
  report.add(other);
  EXPECT_EQ(report.cells.size(), 3U);
  EXPECT_EQ(report.compared, 15);
  EXPECT_FALSE(report.identical());
  EXPECT_FALSE(report.complete);
}

TEST(Matrix, NothingComparedIsNotIdentical) { EXPECT_FALSE(MatrixReport{}.identical()); }

}  // namespace
}  // namespace ft::matrix_test
