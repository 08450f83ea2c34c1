// Which ids stand in the columns of logits that Logits::spare keeps for what is named while a program runs,
// and which one gives way to a new one: the one that was named longest ago. Before anything is named the
// columns hold the ids behind the fixed ones, which a tokenizer made next. A place keeps its id until that
// gives way; columns are in ascending order of ids, as select wants them. Owner: an executable of a backend.
// Thread: the engine thread. Cost: a look-up a token; a new one searches and moves Spare::count ids once. No
// allocation after construction. Errors: none; ids that the head lacks are passed over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"

namespace ft {

class SpareIds {
 public:
  SpareIds() = default;
  explicit SpareIds(const Logits& op);

  /// Names tokens; true if a place has another id than before.
  bool add(std::span<const std::int32_t> tokens);

  bool empty() const { return tokens_.empty(); }
  /// Of all columns, ascending; always the same memory.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// Columns that are not spare: the first ones.
  std::size_t fixed() const { return ids_.size() - tokens_.size(); }
  /// By place.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  /// Places by ascending id: those of the spare columns.
  std::span<const int> order() const { return order_; }

 private:
  int oldest() const;
  void replace(int place, std::int32_t token);
  std::int16_t& place_of(std::int32_t token) { return places_[static_cast<std::size_t>(token - first_)]; }

  std::vector<std::int32_t> ids_;
  std::int32_t first_ = 0, end_ = 0;    // ids that may be spare: behind the fixed ones, before the head's end
  std::vector<std::int16_t> places_;    // [end_ - first_], -1: none
  std::vector<std::int32_t> tokens_;    // [count]
  std::vector<std::int64_t> named_at_;  // [count]; < 0: never, the lowest give way first
  std::vector<int> order_;              // [count]
  std::int64_t clock_ = 0;
};

}  // namespace ft
