#include "backends/metal/row_plan.h"

#include <algorithm>

namespace ft::metal {
namespace {

struct Uses final : Describer {
  void reads(Row row, int, Granularity) override { rows.push_back(row); }
  void writes(Row row, int, Granularity) override { rows.push_back(row); }
  std::vector<Row> rows;
};

}  // namespace

RowPlan::RowPlan(const Program& program, int max_rows)
    : matrices_(static_cast<std::size_t>(program.row_count())) {
  constexpr std::size_t kAlignment = 256;
  const auto& list = program.instructions();
  std::vector<std::size_t> order;  // of first use
  for (std::size_t i = 0; i < list.size(); ++i) {
    Uses uses;
    describe(list[i], uses);
    for (const Row row : uses.rows) {
      const auto id = static_cast<std::size_t>(row.id);
      Matrix& matrix = matrices_[id];
      if (matrix.first < 0) {
        matrix.first = static_cast<int>(i);
        const auto floats = static_cast<std::size_t>(row.width) * static_cast<std::size_t>(max_rows);
        matrix.bytes = (floats * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
        order.push_back(id);
      }
      matrix.last = static_cast<int>(i);
    }
  }
  std::vector<const Matrix*> placed;
  for (const std::size_t id : order) {
    Matrix& matrix = matrices_[id];
    std::erase_if(placed, [&](const Matrix* other) { return other->last < matrix.first; });
    std::ranges::sort(placed, {}, [](const Matrix* other) { return other->offset; });
    for (const Matrix* other : placed) {
      if (matrix.offset + matrix.bytes <= other->offset) break;
      matrix.offset = std::max(matrix.offset, other->offset + other->bytes);
    }
    placed.push_back(&matrix);
    bytes_ = std::max(bytes_, matrix.offset + matrix.bytes);
  }
}

}  // namespace ft::metal
