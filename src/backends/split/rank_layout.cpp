#include "backends/split/rank_layout.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "backends/weight_rows.h"
#include "program/row_source.h"

namespace ft::split {
namespace {

/// Values that were decoded before.
class HeldValues final : public RowSource {
 public:
  HeldValues(std::vector<float> values, std::int64_t cols) : values_(std::move(values)), cols_(cols) {}
  void copy(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    std::memcpy(to.data, values_.data() + first * cols_,
                static_cast<std::size_t>(count * cols_) * sizeof(float));
  }
  void read(std::int64_t first, std::int64_t count, float* out) const override {
    std::copy_n(values_.data() + first * cols_, count * cols_, out);
  }

 private:
  std::vector<float> values_;
  std::int64_t cols_;
};

}  // namespace

int width_of(const RankColumns& columns) {
  int width = 0;
  for (const Columns& part : columns) width += part.width;
  return width;
}

Layout even_layout(int width, int ranks) {
  Layout layout;
  for (int r = 0; r < ranks; ++r) {
    const int first = static_cast<int>(std::int64_t{width} * r / ranks);
    layout.push_back({{first, static_cast<int>(std::int64_t{width} * (r + 1) / ranks) - first}});
  }
  return layout;
}

Layout first_only(int width, int ranks) {
  Layout layout(static_cast<std::size_t>(ranks));
  layout[0] = {{0, width}};
  return layout;
}

bool is_aligned(const Layout& layout, int width) {
  return std::ranges::all_of(layout, [width](const RankColumns& columns) {
    return std::ranges::all_of(
        columns, [width](const Columns& part) { return part.first % width == 0 && part.width % width == 0; });
  });
}

std::optional<std::vector<RankHeads>> cut_heads(int heads, int kv_heads, int ranks) {
  const int group = heads / kv_heads;
  std::vector<RankHeads> cut;
  for (int r = 0; r < ranks; ++r) {
    RankHeads own;
    if (kv_heads >= ranks) {
      own.kv_first = kv_heads * r / ranks, own.kv_count = kv_heads * (r + 1) / ranks - own.kv_first;
      own.first = own.kv_first * group, own.count = own.kv_count * group;
    } else {
      own.kv_first = r * kv_heads / ranks, own.kv_count = 1;
      // Ranks [begin, end) have this key/value head.
      const int begin = (own.kv_first * ranks + kv_heads - 1) / kv_heads;
      const int end = ((own.kv_first + 1) * ranks + kv_heads - 1) / kv_heads;
      const int first = group * (r - begin) / (end - begin);
      own.first = own.kv_first * group + first;
      own.count = group * (r + 1 - begin) / (end - begin) - first;
    }
    if (own.count == 0) return std::nullopt;
    cut.push_back(own);
  }
  return cut;
}

Columns head_columns(int first, int heads, int width, int base) {
  return {base + first * width, heads * width};
}

Weight rows_for(const Weight& weight, Columns columns) {
  if (columns.first == 0 && columns.width == weight.rows) return weight;
  return rows_of(weight, columns.first, columns.width,
                 fmt::format("{}[{}:{}]", weight.name, columns.first, columns.first + columns.width));
}

Weight values_for(const Weight& weight, const RankColumns& columns) {
  if (weight.empty()) return weight;
  std::vector<float> all(static_cast<std::size_t>(weight.rows * weight.cols)), own;
  read_rows(weight, 0, weight.rows, all.data());
  const std::int64_t cols = weight.rows == 1 ? 1 : weight.cols;  // values of a column
  for (const Columns& part : columns) {
    const auto begin = all.begin() + part.first * cols;
    own.insert(own.end(), begin, begin + part.width * cols);
  }
  Weight made;
  made.name = fmt::format("{} of a rank", weight.name);
  made.rows = weight.rows == 1 ? 1 : width_of(columns);
  made.cols = weight.rows == 1 ? width_of(columns) : weight.cols;
  made.from = std::make_shared<HeldValues>(std::move(own), made.cols);
  return made;
}

}  // namespace ft::split
