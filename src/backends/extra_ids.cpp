#include "backends/extra_ids.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ft {
namespace {

constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();

}  // namespace

ExtraIdTable::ExtraIdTable(const Logits& op) {
  if (op.extra.count == 0) return;
  const auto count = static_cast<std::size_t>(op.extra.count);
  first_ = op.ids.back() + 1;
  end_ = static_cast<std::int32_t>(op.lm_head.rows);
  places_.assign(static_cast<std::size_t>(end_ - first_), -1);
  const auto take = [this](std::int32_t token, std::int64_t named_at) {
    place_of(token) = static_cast<std::int16_t>(tokens_.size());
    tokens_.push_back(token);
    named_at_.push_back(named_at);
  };
  for (const std::int32_t token : op.extra.always) take(token, kAlways);
  for (std::int32_t token = first_; tokens_.size() < count; ++token) {
    if (place_of(token) < 0) take(token, -1 - token);
  }
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, {}, [this](int place) { return tokens_[static_cast<std::size_t>(place)]; });
  ids_ = op.ids;
  for (const int place : order_) ids_.push_back(tokens_[static_cast<std::size_t>(place)]);
}

int ExtraIdTable::oldest() const {
  return static_cast<int>(std::ranges::min_element(named_at_) - named_at_.begin());
}

void ExtraIdTable::replace(int place, std::int32_t token) {
  const auto extra = ids_.begin() + static_cast<std::ptrdiff_t>(fixed());
  std::int32_t& old = tokens_[static_cast<std::size_t>(place)];
  const auto from = std::lower_bound(extra, ids_.end(), old) - extra;
  const auto to = std::lower_bound(extra, ids_.end(), token) - extra;
  // The columns between the two move by one.
  const auto move = [from, to](auto columns) {
    if (from < to) {
      std::rotate(columns + from, columns + from + 1, columns + to);
    } else {
      std::rotate(columns + to, columns + from, columns + from + 1);
    }
  };
  place_of(old) = -1;
  place_of(token) = static_cast<std::int16_t>(place);
  extra[from] = old = token;
  move(extra);
  move(order_.begin());
}

bool ExtraIdTable::add(std::span<const std::int32_t> tokens) {
  bool changed = false;
  for (const std::int32_t token : tokens) {
    if (token < first_ || token >= end_) continue;
    if (place_of(token) < 0) {
      const int place = oldest();
      if (named_at_[static_cast<std::size_t>(place)] == kAlways) return changed;
      replace(place, token);
      changed = true;
    }
    std::int64_t& named_at = named_at_[static_cast<std::size_t>(place_of(token))];
    if (named_at != kAlways) named_at = clock_++;
  }
  return changed;
}

}  // namespace ft
