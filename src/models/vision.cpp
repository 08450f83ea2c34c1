#include "models/vision.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

/// Two neighbours in a line of the table, and the weight of the second one.
struct Between {
  int low = 0, high = 0;
  float share = 0;
};

Between between(int index, int count, int side) {
  const float at =
      count > 1 ? static_cast<float>(index) * static_cast<float>(side - 1) / static_cast<float>(count - 1)
                : 0.0F;
  const int low = std::min(static_cast<int>(at), side - 1);
  return {low, std::min(low + 1, side - 1), at - static_cast<float>(low)};
}

}  // namespace

void VisionModel::position(const Place& place, std::span<float> out) const {
  const Between rows = between(place.row, place.rows, position_side);
  const Between columns = between(place.column, place.columns, position_side);
  const auto add = [&](int row, int column, float share) {
    const float* from = position_table.data() + (std::int64_t{row} * position_side + column) * width;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += share * from[i];
  };
  std::ranges::fill(out, 0.0F);
  add(rows.low, columns.low, (1 - rows.share) * (1 - columns.share));
  add(rows.low, columns.high, (1 - rows.share) * columns.share);
  add(rows.high, columns.low, rows.share * (1 - columns.share));
  add(rows.high, columns.high, rows.share * columns.share);
}

}  // namespace ft
