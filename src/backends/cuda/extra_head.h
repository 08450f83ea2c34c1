// The token of each column of the logits, and the rows of the LM head that are packed for extra tokens
// (Logits::extra): tokens that drafts name replace the ones that were added longest ago. Owner: a compiled
// program. Thread: the engine thread. Cost: add() packs 16 rows for each tile that changes, and waits.
// Errors: no memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/weights.h"
#include "backends/extra_ids.h"

namespace ft::cuda {

class ExtraHead {
 public:
  /// `fixed_columns`: of the product before the extra ones, whole tiles.
  static Result<ExtraHead> make(const Logits& op, std::int64_t fixed_columns, std::shared_ptr<Device> device,
                                std::shared_ptr<WeightStore> weights);

  /// Ascending; empty: column v is token v.
  std::span<const std::int32_t> ids() const { return table_.empty() ? ids_ : table_.ids(); }
  /// The same table in the device's memory; null: column v is token v.
  const int* device_ids() const { return ids().empty() ? nullptr : id_memory_.at<int>(); }
  /// Whether there are extra rows: in matrix(); order() gives the product's column of each logit column.
  bool any() const { return !table_.empty(); }
  std::shared_ptr<const PackedMatrix> matrix() const { return matrix_; }
  const int* order() const { return order_.at<int>(); }

  void add(std::span<const std::int32_t> tokens);

 private:
  void fill(std::span<const std::int32_t> before);

  std::shared_ptr<Device> device_;
  std::shared_ptr<WeightStore> weights_;
  std::int64_t columns_ = 0, fixed_columns_ = 0;
  std::vector<std::int32_t> ids_;
  ExtraIdTable table_;
  Weight head_;
  std::shared_ptr<PackedMatrix> matrix_;
  Memory id_memory_, order_;
};

}  // namespace ft::cuda
