#include "speculation/cost_figures.h"

#include <cmath>

namespace ft {

bool CostFigures::plausible() const {
  const double plain = verify_ms[1];
  const auto possible = [plain](double ms) {
    return std::isfinite(ms) && ms > 0 && ms <= kMaxMs && ms <= kMaxTimes * plain;
  };
  for (std::size_t rows = 1; rows < verify_ms.size(); ++rows) {
    if (!possible(verify_ms[rows]) || (rows > 1 && verify_ms[rows] < verify_ms[rows - 1])) return false;
  }
  for (const double weight : draft_weight) {
    if (!std::isfinite(weight) || weight <= 0 || weight > kMaxTimes) return false;
  }
  return possible(draft_ms);
}

bool CostFigures::far_from(const CostFigures& other, double factor) const {
  const auto far = [factor](double one, double two) { return one > factor * two || two > factor * one; };
  for (std::size_t rows = 1; rows < verify_ms.size(); ++rows) {
    if (far(verify_ms[rows], other.verify_ms[rows])) return true;
  }
  for (std::size_t i = 0; i < draft_weight.size(); ++i) {
    if (far(draft_weight[i], other.draft_weight[i])) return true;
  }
  return far(draft_ms, other.draft_ms);
}

}  // namespace ft
