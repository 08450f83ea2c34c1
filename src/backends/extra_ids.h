// The extra ids of a dynamic draft vocabulary: the ids with the extra logit columns (Logits::extra) that are
// assigned at run time. A new id replaces the one that was added longest ago. At first the columns hold the
// ids after the fixed ones, which are the tokenizer's next ones by frequency. A place keeps its id until the
// id is replaced; columns are in ascending order of ids, as `sample` needs them. Owner: an executable of a
// backend. Cost: a look-up per token; a new one searches and moves ExtraIds::count ids once. No allocation
// after construction. Ids that the LM head lacks are ignored.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"

namespace ft {

class ExtraIdTable {
 public:
  ExtraIdTable() = default;
  explicit ExtraIdTable(const Logits& op);

  /// Adds tokens; true if the id of a place has changed.
  bool add(std::span<const std::int32_t> tokens);

  bool empty() const { return tokens_.empty(); }
  /// Ids of all columns, ascending; always the same memory.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// Number of fixed columns, which come first.
  std::size_t fixed() const { return ids_.size() - tokens_.size(); }
  /// The extra ids by place.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  /// The places by ascending id, which is the order of the extra columns.
  std::span<const int> order() const { return order_; }

 private:
  int oldest() const;
  void replace(int place, std::int32_t token);
  std::int16_t& place_of(std::int32_t token) { return places_[static_cast<std::size_t>(token - first_)]; }

  std::vector<std::int32_t> ids_;
  std::int32_t first_ = 0, end_ = 0;    // possible extra ids: after the fixed ones, before the LM head's end
  std::vector<std::int16_t> places_;    // [end_ - first_], -1: none
  std::vector<std::int32_t> tokens_;    // [count]
  std::vector<std::int64_t> named_at_;  // [count]; < 0: never added, the lowest are replaced first
  std::vector<int> order_;              // [count]
  std::int64_t clock_ = 0;
};

}  // namespace ft
