// The depth of a block drafter, by simulated costs and acceptance: blocks of up to 15 drafts, rows 9 to 16
// that cost more than the first, long contexts.
#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <vector>

#include "speculation/simulated_drafting.h"

namespace ft::block_depth_test {
namespace {

/// A machine with other costs for rows 9 to 16 than for the first 8, and at a long context.
struct Machine {
  double upto8 = 0, after8 = 0, pass = 0;  // in plain steps: a row, and a pass of the block
  double sequence = 0, draft = 0;          // 1024 positions of context, and of each draft
  double context = 0;                      // in units of 1024

  double verify(int rows) const {
    return 1 + upto8 * (std::min(rows, 8) - 1) + after8 * std::max(0, rows - 8);
  }
  double round(int depth) const {
    return verify(1 + depth) + (depth > 0 ? pass : 0) + context * (sequence + draft * depth);
  }
  CostModel costs() const {
    CostModel costs;
    std::array<double, CostModel::kRows + 1> measured{};
    for (const int rows : {1, 2, 4, 8, 16}) measured[static_cast<std::size_t>(rows)] = verify(rows);
    costs.calibrate(measured, pass);
    return costs;
  }
};

struct Drafted {
  double tokens = 0, steps = 0, drafts = 0;
  int rounds = 0;
  double value() const { return tokens / steps; }
  double depth() const { return drafts / rounds; }
};

/// A block drafter with these chances by position, whose costs are learnt on the way; depth -1: the policy's
/// choice.
Drafted block_rounds(const Machine& machine, std::span<const double> right, int depth, double tokens = 1e9,
                     unsigned seed = 5) {
  constexpr int kRounds = 600;
  Drafted all;
  CostModel costs = machine.costs();
  DepthPolicy policy(depth);
  RoundSoFar others;
  others.context = others.read.sequences = machine.context;
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int round = 0; round < kRounds && all.tokens < tokens; ++round) {
    const int drafted = policy.choose(costs, static_cast<int>(right.size()), kMaxDraftTokens, kBlock, others);
    int accepted = 0;
    while (accepted < drafted && unit(random) < right[static_cast<std::size_t>(accepted)]) ++accepted;
    policy.observe(drafted, accepted, kBlock);
    ContextRead read = others.read;
    read.drafts = drafted * machine.context;
    costs.observe(1 + drafted, drafted > 0 ? 1 : 0, machine.round(drafted), 1, read);
    all.tokens += 1 + accepted, all.steps += machine.round(drafted), all.drafts += drafted;
    ++all.rounds;
  }
  return all;
}

double best_fixed(const Machine& machine, std::span<const double> right) {
  double best = 1 / machine.round(0);
  for (int depth = 1; depth <= std::ssize(right); ++depth)
    best = std::max(best, block_rounds(machine, right, depth).value());
  return best;
}

TEST(BlockDepth, IsUpTo15WhereRows9To16ArePaidFor) {
  const std::vector<double> right(kMaxDraftTokens, 0.93);
  const Machine cheap{0.017, 0.03, 0.08}, dear{0.017, 0.3, 0.08}, processor{0.3, 0.3, 0.3};
  EXPECT_GT(block_rounds(cheap, right, -1).depth(), 12);
  EXPECT_LT(block_rounds(dear, right, -1).depth(), 9.5);
  for (const Machine& machine : {cheap, dear, processor})
    EXPECT_GE(block_rounds(machine, right, -1).value(), 0.95 * best_fixed(machine, right)) << machine.after8;
  const std::vector<double> wrong(kMaxDraftTokens, 0.1);
  for (const Machine& machine : {cheap, dear, processor})
    EXPECT_GE(block_rounds(machine, wrong, -1).value(), 0.98) << machine.after8;
}

/// At 64K tokens each draft reads the context again, so low acceptance pays for fewer of them.
TEST(BlockDepth, ShortensAtALongContextWithLowAcceptance) {
  const std::vector<double> low = {0.62, 0.55, 0.5, 0.48, 0.45, 0.42, 0.4};
  const std::vector<double> high = {0.93, 0.9, 0.87, 0.84, 0.81, 0.78, 0.75};
  const Machine near{0.02, 0.03, 0.1};
  Machine far = near;
  far.sequence = 0.0044, far.draft = 0.0022, far.context = 64;
  const Drafted there = block_rounds(far, low, -1);
  EXPECT_LT(there.depth(), 5);
  EXPECT_LT(there.depth() + 1, block_rounds(near, low, -1).depth());
  EXPECT_GT(there.depth(), 0.5);
  EXPECT_GT(block_rounds(far, high, -1).depth(), there.depth() + 1) << "high acceptance pays for them";
  for (const std::vector<double>& right : {low, high})
    EXPECT_GE(block_rounds(far, right, -1).value(), 0.93 * best_fixed(far, right));
  EXPECT_GE(there.value(), block_rounds(far, low, 7).value()) << "a whole block";
}

/// A mixture's rows are dear: two wrong drafts at the start would use up the allowance.
TEST(BlockDepth, AFirstAnswerIsDraftedAlsoWhereItsFirstDraftIsWrong) {
  const Machine mixture{0.19, 0.19, 0.29};
  const std::vector<double> prose = {0.86, 0.78, 0.7, 0.63, 0.57, 0.51, 0.46};
  constexpr int kAnswers = 400;
  std::vector<double> paces;
  for (unsigned seed = 0; seed < kAnswers; ++seed)
    paces.push_back(block_rounds(mixture, prose, -1, 200, seed).value());
  std::ranges::sort(paces);
  EXPECT_GE(paces[kAnswers / 20], 0.88 * best_fixed(mixture, prose)) << "of 19 answers out of 20";
}

}  // namespace
}  // namespace ft::block_depth_test
