// Which columns of a row each rank has, and the parts of weights that make them. A rank is a device that
// computes a part of every layer (ranks.h). Owner: the caller. Thread: any.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "program/weight.h"

namespace ft::split {

/// Columns [first, first + width) of a row.
struct Columns {
  int first = 0, width = 0;
  bool operator==(const Columns&) const = default;
};

/// The columns of one rank, in the order in which it holds them. Two ranks may have the same column.
using RankColumns = std::vector<Columns>;
/// [rank]
using Layout = std::vector<RankColumns>;

int width_of(const RankColumns& columns);
/// Equal parts, in order.
Layout even_layout(int width, int ranks);
/// The first rank has the whole row, the others nothing of it.
Layout first_only(int width, int ranks);
/// Every part of every rank is a multiple of `width` and begins at one.
bool is_aligned(const Layout& layout, int width);

/// Heads of one rank: consecutive query heads (value heads of a recurrence) and the key/value heads (key
/// heads) that they read.
struct RankHeads {
  int first = 0, count = 0;
  int kv_first = 0, kv_count = 0;
};
/// By key/value heads. If there are fewer of them than ranks, several ranks have the same one and share its
/// query heads. Null: a rank would have none.
std::optional<std::vector<RankHeads>> cut_heads(int heads, int kv_heads, int ranks);
/// `heads` consecutive parts of `width` columns, from column `base` on.
Columns head_columns(int first, int heads, int width, int base = 0);

/// The rows of a matrix that make `columns` of its output.
Weight rows_for(const Weight& weight, Columns columns);
/// The values of a vector, or rows of a small table [rows, cols], that belong to `columns`, as float32.
Weight values_for(const Weight& weight, const RankColumns& columns);

}  // namespace ft::split
