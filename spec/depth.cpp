#include "spec/depth.h"

#include <algorithm>

namespace ft {

CostModel::CostModel() {
  for (std::size_t rows = 0; rows < verify.size(); ++rows) {
    verify[rows] = rows == 0 ? 0 : 1 + 0.1 * static_cast<double>(rows - 1);
  }
}

void CostModel::calibrate(const std::array<double, kMaxDepth + 2>& by_rows, int rows, int passes,
                          double with_head) {
  plain_ = by_rows[1];
  if (plain_ <= 0) return;
  std::size_t known = 1;
  verify[1] = 1;
  for (std::size_t i = 2; i < verify.size(); ++i) {
    if (by_rows[i] <= 0) continue;
    const double cost = std::max(by_rows[i] / plain_, verify[known]);
    for (std::size_t j = known + 1; j <= i; ++j) {
      const double part = static_cast<double>(j - known) / static_cast<double>(i - known);
      verify[j] = verify[known] + part * (cost - verify[known]);
    }
    known = i;
  }
  const double slope = known > 1 ? (verify[known] - 1) / static_cast<double>(known - 1) : 0;
  for (std::size_t j = known + 1; j < verify.size(); ++j) verify[j] = verify[j - 1] + slope;
  if (passes > 0 && with_head > 0) {
    draft = std::max(0.005, (with_head / plain_ - verify[static_cast<std::size_t>(rows)]) / passes);
  }
}

void CostModel::observe(int rows, int passes, double cost) {
  constexpr double kRate = 0.1;
  if (cost <= 0 || rows < 1 || rows >= static_cast<int>(verify.size())) return;
  if (rows == 1 && passes == 0) {
    plain_ = plain_ == 0 ? cost : plain_ + kRate * (cost - plain_);
    return;
  }
  if (plain_ == 0) return;
  const auto at = static_cast<std::size_t>(rows);
  const double ratio = std::clamp(cost / plain_ - draft * passes, 0.8, 16.0);
  verify[at] += kRate * (ratio - verify[at]);
  if (passes > 0) {
    const double pass = std::clamp((cost / plain_ - verify[at]) / passes, 0.005, 4.0);
    draft += kRate * (pass - draft);
  }
  for (std::size_t i = 2; i < verify.size(); ++i) verify[i] = std::max(verify[i], verify[i - 1]);
}

int DepthPolicy::choose(const CostModel& costs, int available, int allowed, bool free) {
  const int most = std::min({available, allowed, kMaxDepth});
  if (fixed_ >= 0) return std::clamp(fixed_, 0, std::max(most, 0));
  int best = 0;
  double best_rate = 1;
  double chain = 1;
  double tokens = 1;
  for (int depth = 1; depth <= most; ++depth) {
    chain *= recent_[static_cast<std::size_t>(depth - 1)];
    tokens += chain;
    const double cost = costs.verify[static_cast<std::size_t>(depth + 1)] + (free ? 0 : costs.draft * depth);
    if (tokens / cost <= best_rate) continue;
    best_rate = tokens / cost;
    best = depth;
  }
  idle_ = best > 0 ? 0 : idle_ + 1;
  if (best == 0 && most > 0 && idle_ % kProbeEvery == 0) return 1;
  return best;
}

void DepthPolicy::observe(int drafted, int accepted) {
  for (int i = 0; i < std::min(drafted, accepted + 1); ++i) {
    double& rate = recent_[static_cast<std::size_t>(i)];
    rate = kDecay * rate + (1 - kDecay) * (i < accepted ? 1 : 0);
  }
}

}  // namespace ft
