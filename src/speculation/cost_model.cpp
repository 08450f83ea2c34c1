#include "speculation/cost_model.h"

#include <algorithm>
#include <cmath>

namespace ft {

CostModel::CostModel() {
  for (int rows = 1; rows <= kRows; ++rows) verify_[static_cast<std::size_t>(rows)] = 1 + 0.1 * (rows - 1);
  weight_.fill(1);
}

void CostModel::calibrate(const std::array<double, kRows + 1>& measured, double draft) {
  constexpr double kMaxPerRow = 1.1;  // of a plain step
  if (measured[1] <= 0) return;
  verify_[1] = measured[1];
  std::size_t known = 1;
  for (std::size_t rows = 2; rows < measured.size(); ++rows) {
    if (measured[rows] <= 0) continue;
    const double most = kMaxPerRow * static_cast<double>(rows) * measured[1];
    const double cost = std::clamp(measured[rows], verify_[known], std::max(verify_[known], most));
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
  beyond_ = verify_[kRows] - verify_[kRows - 1];
  batches_ = {};
  seen_.fill(false);
  draft_seen_ = false;
  calibrated_ = verify_[1];
  scaled_ = 1;
  late_plain_ = late_drafted_ = 0;
  plain_rounds_ = drafted_rounds_ = 0;
  measured_ = true;
}

void CostModel::restore(const CostFigures& figures) {
  calibrate(figures.verify_ms, figures.draft_ms);
  weight_ = figures.draft_weight;
}

void CostModel::set_pass_cost(int drafter, double weight) {
  if (weight > 0) weight_[static_cast<std::size_t>(drafter)] = weight;
}

/// The cost by the figures of one slot; each further slot also reads a state.
double CostModel::unlearnt(int rows, int slots) const {
  constexpr double kSlot = 0.05;
  const double known = verify_[static_cast<std::size_t>(std::min(rows, kRows))];
  return known + std::max(0, rows - kRows) * beyond_ + (slots - 1) * kSlot * verify_[1];
}

double CostModel::verify(int rows, int slots) const {
  const double cost = unlearnt(rows, slots);
  if (slots <= 1) return cost;
  const double learnt = cost * batches_.ratio(rows, slots);
  const double trust = batches_.trust(rows, slots);
  if (rows <= slots || trust >= 1) return learnt;
  const double plain = verify(slots, slots);
  return plain + trust * std::max(0.0, learnt - plain);
}

/// The part of an error that is applied to an estimate after `seen` corrections; all of it for the first.
double CostModel::share(double late, int seen) {
  constexpr double kFaster = 0.3;
  constexpr double kSlower = 0.05;
  return late * std::max(late < 0 ? kFaster : kSlower, 1.0 / (1 + seen));
}

/// Plain rounds are faster than calibration said: it ran at a bad moment, so the figures that no round has
/// confirmed are too high too. They keep their ratio to the fastest plain step since.
void CostModel::scale_unseen() {
  const double scale = verify_[1] / calibrated_;
  if (scale >= scaled_) return;
  const double factor = scale / scaled_;
  scaled_ = scale;
  for (std::size_t rows = 2; rows < verify_.size(); ++rows) {
    if (!seen_[rows]) verify_[rows] *= factor;
    verify_[rows] = std::max(verify_[rows], verify_[rows - 1]);
  }
  if (!draft_seen_) draft_ *= factor;
}

/// The part of a round's excess time that scale_unseen() took off figures without observations.
double CostModel::unseen_part(std::size_t rows, double draft_steps) const {
  const double verified = seen_[rows] ? 0 : verify_[rows];
  const double drafted = draft_seen_ ? 0 : draft_steps * draft_;
  return (verified + drafted) * (1 / scaled_ - 1);
}

/// The cost of a long context is the part of a round that the figures of a short one do not explain.
void CostModel::observe_reading(double late, const ContextRead& read) {
  if (read.drafts <= 0) {
    const double change = share(late, segments_seen_++) / read.sequences;
    segment_read_ = std::max(0.0, segment_read_ + change);
  } else {
    row_read_ = std::max(0.0, row_read_ + share(late, rows_seen_++) / read.drafts);
  }
}

/// `late`: part of the expected time. Plain rounds slowly forget the mean of drafts, which are then measured
/// again. A round that is much too early shows that the cost itself has fallen: the mean of before is worth
/// little.
void CostModel::observe_mean(int rows, double late) {
  constexpr double kShare = 0.04, kForgotten = 0.003;
  constexpr double kFallen = -0.25, kKept = 0.3;
  constexpr int kTrust = 8;  // rounds that the initial 0 weighs as much as
  const bool plain = rows == 1;
  double& mean = plain ? late_plain_ : late_drafted_;
  int& seen = plain ? plain_rounds_ : drafted_rounds_;
  if (late < kFallen) mean *= kKept;
  mean += std::max(kShare, 1.0 / (kTrust + ++seen)) * (std::clamp(late, -1.0, 1.0) - mean);
  if (plain) late_drafted_ -= kForgotten * std::max(0.0, late_drafted_ - late_plain_);
}

/// The part of a correction that belongs to the drafts. Rows and drafts share it by their costs. But plain
/// rounds say what rows cost at least: where drafts are dear, they take what would put the rows below that,
/// up to a third of their cost.
double CostModel::drafted_part(double change, std::size_t rows, double draft_steps, double expected) const {
  constexpr double kMaxShare = 0.3, kDear = 0.1;
  const double shared = change * (1 - verify_[rows] / expected);
  if (draft_ < kDear * verify_[1]) return shared;
  const double rest = change + (verify_[rows] - verify_[1]);
  return std::min(shared, std::max(rest, -kMaxShare * draft_steps * draft_));
}

void CostModel::observe(int rows, double draft_steps, double cost, int slots, const ContextRead& read,
                        int drafter) {
  constexpr double kFaster = 0.3;
  constexpr double kSlower = 0.02;
  constexpr double kLongContext = 2;  // of each sequence, in units of 1024 positions
  if (cost <= 0 || rows < 1 || !measured_) return;
  if (slots > 1) {
    const double verified = cost - draft_steps * draft_ - reading(read);
    constexpr double kMinRatio = 0.1;  // of the expected time, whatever the other parts cost
    const double expected = unlearnt(rows, slots);
    return batches_.observe(rows, slots, std::max(kMinRatio, verified / expected));
  }
  if (read.sequences > kLongContext * slots) {
    const double expected = verify(rows, slots) + draft_steps * draft_ + reading(read);
    return observe_reading(std::min(cost, 4 * expected) - expected, read);
  }
  if (rows > kRows) return;
  const auto at = static_cast<std::size_t>(rows);
  double& verify = verify_[at];
  const double expected = verify + draft_steps * draft_ + reading(read);
  const double late = std::min(cost, 4 * expected) - expected;
  const double back = std::clamp(late, 0.0, unseen_part(at, draft_steps));
  observe_mean(rows, (late - back) / expected);
  const double change = back + (late - back) * (late < 0 ? kFaster : kSlower);
  const double drafts = draft_steps > 0 ? drafted_part(change, at, draft_steps, expected) : 0;
  verify += change - drafts;
  seen_[at] = true;
  if (draft_steps > 0) {
    draft_seen_ = true;
    double& weight = weight_[static_cast<std::size_t>(std::max(drafter, 0))];
    if (drafter > 0) {
      weight = std::max(0.01 * weight, weight + weight * drafts / draft_steps / draft_);
    } else {
      draft_ += drafts / draft_steps;
    }
  }
  if (rows == 1) scale_unseen();
  // More rows never cost less: neighbours that contradict this were measured at a worse moment.
  for (int i = 1; i < rows; ++i)
    verify_[static_cast<std::size_t>(i)] = std::min(verify_[static_cast<std::size_t>(i)], verify);
  for (int i = rows + 1; i <= kRows; ++i)
    verify_[static_cast<std::size_t>(i)] = std::max(verify_[static_cast<std::size_t>(i)], verify);
}

}  // namespace ft
