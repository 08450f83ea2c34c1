#include "speculation/batch_costs.h"

#include <algorithm>

namespace ft {
namespace {

constexpr int kFirst = 3;  // rounds of a range whose minimum counts: a first one may be late by chance

}  // namespace

std::size_t BatchCosts::place(int slots) { return static_cast<std::size_t>(std::clamp(slots, 2, kMaxSlots)); }

/// 0 is a plain round; the others are by drafts for each sequence.
std::size_t BatchCosts::range(int rows, int slots) {
  constexpr std::array<double, kRanges - 1> kEnds = {0, 0.25, 0.5, 1, 1.5, 2, 3, 5, 9};
  const double drafts = static_cast<double>(rows - slots) / slots;
  return static_cast<std::size_t>(std::lower_bound(kEnds.begin(), kEnds.end(), drafts) - kEnds.begin());
}

void BatchCosts::Range::take(double new_rows, double new_ratio) {
  constexpr double kFaster = 0.3, kSlower = 0.05;
  ++seen;
  rows += (new_rows - rows) / std::min(seen, 16);
  if (seen <= kFirst) {
    ratio = seen == 1 ? new_ratio : std::min(ratio, new_ratio);
  } else {
    constexpr double kLate = 3;  // a round that the machine held up is weak evidence
    const double change = std::min(new_ratio, kLate * ratio) - ratio;
    ratio += change * (change < 0 ? kFaster : kSlower);
  }
}

void BatchCosts::observe(int rows, int slots, double ratio) {
  Batch& batch = batches_[place(slots)];
  batch.since_plain = rows <= slots ? 0 : batch.since_plain + 1;
  batch.ranges[range(rows, slots)].take(rows, ratio);
}

bool BatchCosts::Batch::seen() const {
  return std::ranges::any_of(ranges, [](const Range& each) { return each.seen > 0; });
}

double BatchCosts::Batch::ratio(double rows) const {
  const Range* below = nullptr;
  for (const Range& each : ranges) {
    if (each.seen == 0) continue;
    if (each.rows >= rows) {
      if (below == nullptr || each.rows <= below->rows) return each.ratio;
      return below->ratio + (each.ratio - below->ratio) * (rows - below->rows) / (each.rows - below->rows);
    }
    below = &each;
  }
  return below != nullptr ? below->ratio : 1;
}

double BatchCosts::ratio(int rows, int slots) const {
  const std::size_t at = place(slots);
  for (std::size_t away = 0; away <= kMaxSlots; ++away) {
    for (const std::size_t near : {at - away, at + away}) {
      if (near > kMaxSlots || near < 2 || !batches_[near].seen()) continue;
      return batches_[near].ratio(static_cast<double>(rows) * static_cast<double>(near) /
                                  static_cast<double>(at));
    }
  }
  return 1;
}

double BatchCosts::trust(int rows, int slots) const {
  const int seen = batches_[place(slots)].ranges[range(rows, slots)].seen;
  return seen == 0 ? 1 : static_cast<double>(std::min(seen, kFirst)) / kFirst;
}

bool BatchCosts::plain_due(int slots) const {
  constexpr int kOld = 128;
  const Batch& batch = batches_[place(slots)];
  return batch.ranges[0].seen < kFirst || batch.since_plain >= kOld;
}

}  // namespace ft
