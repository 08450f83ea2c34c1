// Decides which rows of a program each rank has whole and of which it has columns (rank_layout.h). Heads of
// an attention or a recurrence fix the columns of its rows; rows of a linear take the columns that their
// reader wants; instructions that need a whole row (norms, routers, experts) run on every rank. Owner: the
// caller. Cost: two passes over the list.
#pragma once

#include <vector>

#include "backends/split/rank_layout.h"
#include "base/result.h"
#include "program/program.h"

namespace ft::split {

struct RankPlan {
  int ranks = 1;
  std::vector<Layout> rows;  // [Row::id] the columns of each rank; empty: each has the whole row
  std::vector<std::vector<RankHeads>> heads;  // [instruction] of attend and delta_rule; empty: all on each
  bool cuts_head = false;                     // each rank has a part of the vocabulary, in order

  const Layout& of(Row row) const { return rows[static_cast<std::size_t>(row.id)]; }
};

/// The rows that an attention or a recurrence reads, by heads.
Layout query_layout(const std::vector<RankHeads>& heads, int width);
Layout key_layout(const std::vector<RankHeads>& heads, int width);
/// q, k of `op.key_heads` and v of `op.value_heads` in one row.
Layout delta_layout(const std::vector<RankHeads>& heads, const DeltaRule& op);

/// `host_head`: the host can sample from logits of all ranks, so the LM head is cut. `cut_caches`: of a
/// program that reads timelines of another one, whether their keys and values are cut; else null.
/// kUnsupported: it reads such keys and values by other heads.
Result<RankPlan> plan_ranks(const Program& program, int ranks, bool host_head,
                            const std::vector<bool>* cut_caches = nullptr);
/// By Attention::cache of the planned program: whether each rank has its own key/value heads.
std::vector<bool> cut_caches_of(const Program& program, const RankPlan& plan);

}  // namespace ft::split
