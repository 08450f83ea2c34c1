// Depths where the cost of a round grows with the distinct experts that its rows choose. The clock is a
// count: a round costs the bytes that all rows share, and a part for each distinct expert.
#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "speculation/depth.h"

namespace ft::experts_cost_test {
namespace {

constexpr int kExperts = 256, kChosen = 8;
constexpr double kShared = 1, kExpert = 1.0 / kChosen;  // a plain step costs 2, half of it for its experts
constexpr double kDraft = 0.1;                          // of a pass of the head

class Head final : public Drafter {
 public:
  Head() { set_number(0); }
  std::string_view name() const override { return "head"; }
  Status open(int, std::int64_t) override { return {}; }
  void close(int) override {}
  Status observe(int, std::span<const std::int32_t>, bool) override { return {}; }
  int plan(const DraftSlot&) override { return 0; }
  int draft_cost(int depth) const override { return depth; }
  Status propose(std::span<DraftSlot*>, std::span<std::int32_t>) override { return {}; }
};
const Head kHead;

/// Rows choose experts at random, except a share that they have in common with the row before.
class Routing {
 public:
  explicit Routing(double kept) : kept_(kept) {}
  double round_cost(int rows) {
    std::set<int> row, all;
    for (int r = 0; r < rows; ++r) {
      std::set<int> next;
      for (const int expert : row) {
        if (unit() < kept_) next.insert(expert);
      }
      while (next.size() < kChosen) next.insert(static_cast<int>(random_() % kExperts));
      all.insert(next.begin(), next.end());
      row = std::move(next);
    }
    return kShared + kExpert * static_cast<double>(all.size());
  }
  double unit() { return std::uniform_real_distribution(0.0, 1.0)(random_); }

 private:
  double kept_;
  std::mt19937 random_{7};
};

/// The calibration's measurements at start: rounds of these rows, once each.
CostModel calibrated(Routing routing) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  for (const std::size_t rows : {1U, 2U, 4U, 8U}) measured[rows] = routing.round_cost(static_cast<int>(rows));
  costs.calibrate(measured, kDraft);
  return costs;
}

/// Tokens for the time of a plain step over 60 answers of 200 tokens; each draft is right with a chance of
/// `right`. `costs` learns from the rounds.
double pace(Routing routing, CostModel costs, double right, int depth = -1) {
  AcceptancePrior prior;
  double tokens = 0, spent = 0;
  for (int answer = 0; answer < 60; ++answer) {
    DepthPolicy policy(depth, prior);
    for (int length = 0; length < 200;) {
      const int drafted = policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kHead);
      int accepted = 0;
      while (accepted < drafted && routing.unit() < right) ++accepted;
      policy.observe(drafted, accepted, kHead);
      const double cost = routing.round_cost(drafted + 1) + kDraft * drafted;
      costs.observe(drafted + 1, drafted, cost);
      spent += cost, length += 1 + accepted, tokens += 1 + accepted;
    }
    policy.teach(prior);
  }
  return tokens / spent * (kShared + kExpert * kChosen);
}

TEST(ExpertsCost, UnderUniformRoutingDraftsThatDoNotPayCostAtMostTwoPercent) {
  const Routing uniform(0);
  for (const double right : {0.0, 0.2, 0.4}) {
    EXPECT_LT(pace(uniform, calibrated(uniform), right, 1), 1) << "a draft of every round pays: " << right;
    EXPECT_GE(pace(uniform, calibrated(uniform), right), 0.98) << right;
  }
}

TEST(ExpertsCost, DraftsPayWhereNeighboursShareTheirExperts) {
  const Routing shared(0.8);
  double best = 0;
  for (int depth = 0; depth <= 4; ++depth)
    best = std::max(best, pace(shared, calibrated(shared), 0.75, depth));
  EXPECT_GE(best, 1.2);
  EXPECT_GE(pace(shared, calibrated(shared), 0.75), 0.97 * best);
}

TEST(ExpertsCost, TheSameAcceptancePaysOrNotByTheExpertsAlone) {
  const Routing uniform(0), shared(0.9);
  EXPECT_LT(pace(uniform, calibrated(uniform), 0.5, 2), 1);
  EXPECT_GT(pace(shared, calibrated(shared), 0.5, 2), 1.05);
}

/// Rounds of 1, 2, 4 rows that cost 1, 1.7, 2.9 plain steps on average and vary with their experts, a pass of
/// the head, drafts that are mostly right: a round then costs about what its tokens are worth.
class NearBreakEven {
 public:
  NearBreakEven(double pass, double varies, double busy, unsigned seed)
      : pass_(pass), varies_(varies), busy_(busy), random_(seed) {}

  double cost(int depth) {
    const double mean = depth == 0 ? 1 : depth < 2 ? 1.7 : 1.7 + 0.6 * (depth - 1);
    const double rows = 1 + (mean - 1) * std::max(0.0, std::normal_distribution(1.0, varies_)(random_));
    const double other = std::abs(std::normal_distribution(0.0, 0.05)(random_));  // programs
    return (rows + pass_ * depth) * (1 + other + (unit() < busy_ ? unit() : 0));
  }
  /// As at the start of long rounds: the better of two samples of 1 and 4 rows, and of a round with drafts.
  CostModel calibrated() {
    const auto better = [this](int depth, bool drafts) {
      const auto sample = [&] { return cost(depth) - (drafts ? 0 : pass_ * depth); };
      return std::min(sample(), sample());
    };
    std::array<double, CostModel::kRows + 1> measured{};
    measured[1] = better(0, false), measured[4] = better(3, false);
    CostModel costs;
    costs.calibrate(measured, std::max(0.01, (better(3, true) - measured[4]) / 3));
    return costs;
  }
  double unit() { return std::uniform_real_distribution(0.0, 1.0)(random_); }

 private:
  double pass_, varies_, busy_;
  std::mt19937 random_;
};

/// Tokens for the time of a plain step over answers of 128 tokens, the mean of several machines; depth -1: by
/// the policy.
double mostly_right_pace(double pass, double varies, double busy, int answers, int depth = -1) {
  constexpr int kMachines = 12, kDrafts = 3;
  constexpr double kRight[kDrafts] = {0.93, 0.925, 0.87};
  double all = 0;
  for (unsigned seed = 1; seed <= kMachines; ++seed) {
    NearBreakEven machine(pass, varies, busy, seed);
    CostModel costs = machine.calibrated();
    AcceptancePrior prior;
    double tokens = 0, spent = 0, plain = 0;
    for (int answer = 0; answer < answers; ++answer) {
      DepthPolicy policy(depth, prior);
      for (int length = 0; length < 128;) {
        const int drafted = policy.choose(costs, kDrafts, kMaxDraftTokens, kHead);
        int accepted = 0;
        while (accepted < drafted && machine.unit() < kRight[accepted]) ++accepted;
        policy.observe(drafted, accepted, kHead);
        const double cost = machine.cost(drafted);
        costs.observe(drafted + 1, drafted, cost);
        spent += cost, length += 1 + accepted, tokens += 1 + accepted;
      }
      policy.teach(prior);
    }
    constexpr int kPlain = 2000;
    for (int round = 0; round < kPlain; ++round) plain += machine.cost(0) / kPlain;
    all += tokens * plain / spent / kMachines;
  }
  return all;
}

TEST(ExpertsCost, DraftsThatAreRightAndTooDearCostLittle) {
  for (const double pass : {0.3, 0.4}) {
    for (const double varies : {0.0, 0.15, 0.3}) {
      for (const double busy : {0.0, 0.05}) {
        EXPECT_LT(mostly_right_pace(pass, varies, busy, 8, 3), 0.97) << "a fixed depth does not pay";
        EXPECT_GE(mostly_right_pace(pass, varies, busy, 8), 0.975) << pass << ' ' << varies << ' ' << busy;
        EXPECT_GE(mostly_right_pace(pass, varies, busy, 1), 0.965) << "the first answer";
      }
    }
  }
}

TEST(ExpertsCost, DraftsThatPayALittleAreMade) {
  for (const double varies : {0.0, 0.15, 0.3}) {
    EXPECT_GE(mostly_right_pace(0.1, varies, 0.05, 8), 0.96 * mostly_right_pace(0.1, varies, 0.05, 8, 2))
        << varies;
  }
}

TEST(ExpertsCost, RoundsCorrectACalibrationWhoseRowsSharedTheirExperts) {
  const Routing uniform(0);
  EXPECT_GE(pace(uniform, calibrated(Routing(1)), 0.4), 0.97);
}

}  // namespace
}  // namespace ft::experts_cost_test
