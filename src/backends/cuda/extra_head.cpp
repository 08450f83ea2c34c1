#include "backends/cuda/extra_head.h"

#include <algorithm>
#include <numeric>

#include "backends/cuda/arguments.h"

namespace ft::cuda {

Result<ExtraHead> ExtraHead::make(const Logits& op, std::int64_t fixed_columns,
                                  std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights) {
  ExtraHead made;
  made.device_ = std::move(device), made.weights_ = std::move(weights);
  Device& on = *made.device_;
  made.columns_ = op.columns(), made.fixed_columns_ = fixed_columns;
  made.ids_ = op.tokens();
  const auto ints = [&](std::int64_t count) {
    return Memory(made.device_, static_cast<std::size_t>(count) * sizeof(int));
  };
  made.id_memory_ = ints(std::max<std::int64_t>(1, made.columns_));
  if (made.id_memory_.empty())
    return no_memory(on, "ids of columns", made.columns_ * 4, "use a smaller model");
  if (!made.ids_.empty()) on.copy_in(made.id_memory_.at(), made.ids_.data(), made.ids_.size() * sizeof(int));
  made.table_ = ExtraIdTable(op);
  if (!made.any()) return made;
  made.head_ = op.lm_head;
  FT_ASSIGN(made.matrix_, made.weights_->room(op.lm_head, op.extra.count));
  made.order_ = ints(made.columns_);
  if (made.order_.empty())
    return no_memory(on, "the order of columns", made.columns_ * 4, "use a smaller model");
  made.fill({});
  return made;
}

void ExtraHead::add(std::span<const std::int32_t> tokens) {
  if (!any()) return;
  const std::vector<std::int32_t> before(table_.tokens().begin(), table_.tokens().end());
  if (table_.add(tokens)) fill(before);
}

/// Packs the tiles whose places have other ids than `before`, and uploads the order of columns.
void ExtraHead::fill(std::span<const std::int32_t> before) {
  const std::span<const std::int32_t> now = table_.tokens();
  for (std::size_t first = 0; first < now.size(); first += kTileOutputs) {
    const std::size_t count = std::min<std::size_t>(kTileOutputs, now.size() - first);
    if (!before.empty() && std::ranges::equal(before.subspan(first, count), now.subspan(first, count)))
      continue;
    weights_->pack_rows(head_, now.subspan(first, count), static_cast<std::int64_t>(first), *matrix_);
  }
  std::vector<int> order(static_cast<std::size_t>(columns_));
  std::iota(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(table_.fixed()), 0);
  for (std::size_t i = 0; i < table_.order().size(); ++i)
    order[table_.fixed() + i] = static_cast<int>(fixed_columns_) + table_.order()[i];
  device_->copy_in(order_.at(), order.data(), order.size() * sizeof(int));
  device_->copy_in(id_memory_.at(), ids().data(), ids().size() * sizeof(int));
  device_->wait();
}

}  // namespace ft::cuda
