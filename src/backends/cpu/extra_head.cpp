#include "backends/cpu/extra_head.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft::cpu {

Status ExtraIdHead::make(const Logits& op, int max_weight_bits) {
  ids_ = ExtraIdTable(op);
  if (ids_.empty()) return {};
  head_ = op.lm_head;
  rows_.assign(ids_.tokens().size(), -1);
  FT_ASSIGN(packed_, plan_pack(head_, op.extra.count, max_weight_bits));
  memory_ = Memory::allocate(packed_.bytes());
  if (memory_.empty()) {
    return Error{Code::kExhausted,
                 fmt::format("cpu backend: no memory for {} MB of extra rows of {}; use a smaller model",
                             packed_.bytes() / 1000000, head_.name)};
  }
  packed_.data = memory_.data();
  scratch_.fit(head_, packed_);
  pack();
  return {};
}

void ExtraIdHead::pack() {
  const std::span<const std::int32_t> extra_ids = ids_.tokens();
  for (std::size_t first = 0; first < extra_ids.size(); first += kLanes) {
    const auto ids = extra_ids.subspan(first, std::min<std::size_t>(kLanes, extra_ids.size() - first));
    const auto rows = std::span(rows_).subspan(first, ids.size());
    if (std::ranges::equal(ids, rows)) continue;
    std::ranges::copy(ids, rows.begin());
    const int block = static_cast<int>(first / kLanes);
    pack_blocks(head_, rows_, packed_, block, block + 1, memory_.data(), scratch_);
  }
}

void ExtraIdHead::arrange(float* row, float* scratch) const {
  float* const extra = row + ids_.fixed();
  std::copy_n(extra, rows_.size(), scratch);
  std::ranges::transform(ids_.order(), extra, [scratch](int place) { return scratch[place]; });
}

}  // namespace ft::cpu
