#include "spec/depth.h"

#include <algorithm>

namespace ft {

CostModel::CostModel() {
  for (int rows = 1; rows <= kRows; ++rows) verify_[static_cast<std::size_t>(rows)] = 1 + 0.1 * (rows - 1);
}

void CostModel::calibrate(const std::array<double, kRows + 1>& measured, double draft) {
  if (measured[1] <= 0) return;
  verify_[1] = measured[1];
  std::size_t known = 1;
  for (std::size_t rows = 2; rows < measured.size(); ++rows) {
    if (measured[rows] <= 0) continue;
    const double cost = std::max(measured[rows], verify_[known]);  // more rows never cost less
    for (std::size_t between = known + 1; between <= rows; ++between) {
      const double part = static_cast<double>(between - known) / static_cast<double>(rows - known);
      verify_[between] = verify_[known] + part * (cost - verify_[known]);
    }
    known = rows;
  }
  const double slope =
      known > 1 ? (verify_[known] - verify_[1]) / static_cast<double>(known - 1) : 0.1 * verify_[1];
  for (std::size_t rows = known + 1; rows < verify_.size(); ++rows) verify_[rows] = verify_[rows - 1] + slope;
  draft_ = draft > 0 ? draft : 0.15 * verify_[1];
  measured_ = true;
}

void CostModel::observe(int rows, int passes, double cost) {
  constexpr double kFaster = 0.3;
  constexpr double kSlower = 0.02;
  if (cost <= 0 || rows < 1 || rows > kRows || !measured_) return;
  double& verify = verify_[static_cast<std::size_t>(rows)];
  const double expected = verify + passes * draft_;
  const double late = std::min(cost, 4 * expected) - expected;
  const double change = late * (late < 0 ? kFaster : kSlower);
  const double share = verify / expected;
  verify += change * share;
  if (passes > 0) draft_ += change * (1 - share) / passes;
  // More rows never cost less: neighbours that say so were measured at a worse moment.
  for (int i = 1; i < rows; ++i)
    verify_[static_cast<std::size_t>(i)] = std::min(verify_[static_cast<std::size_t>(i)], verify);
  for (int i = rows + 1; i <= kRows; ++i)
    verify_[static_cast<std::size_t>(i)] = std::max(verify_[static_cast<std::size_t>(i)], verify);
}

double CostModel::round(int depth, bool free) const {
  return (verify(depth + 1) + (free ? 0 : draft_ * depth)) / verify(1);
}

int DepthPolicy::choose(const CostModel& costs, int available, int allowed, bool free) {
  const int most = std::min({available, allowed, kMaxDepth});
  if (most <= 0) return 0;
  if (fixed_ >= 0) return std::min(fixed_, most);
  int best = 0;
  double best_rate = 1;
  double chain = 1;
  double tokens = 1;
  for (int depth = 1; depth <= most; ++depth) {
    chain *= recent_[static_cast<std::size_t>(depth - 1)];
    tokens += chain;
    const double rate = tokens / costs.round(depth, free);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = depth;
  }
  if (best > 0) {
    idle_ = 0;
    next_probe_ = kFirstProbe;
    return best;
  }
  // What is never tried is never learnt: try again now and then, less often each time it does not pay.
  if (++idle_ < next_probe_) return 0;
  idle_ = 0;
  next_probe_ = std::min(2 * next_probe_, kLastProbe);
  return std::min(most, 2);
}

void DepthPolicy::observe(int drafted, int accepted) {
  for (int i = 0; i < std::min(drafted, accepted + 1); ++i) {
    double& rate = recent_[static_cast<std::size_t>(i)];
    rate = kDecay * rate + (1 - kDecay) * (i < accepted ? 1 : 0);
  }
}

}  // namespace ft
