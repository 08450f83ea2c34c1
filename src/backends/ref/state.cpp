#include "backends/ref/state.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/assert.h"

namespace ft::ref {
namespace {

std::size_t cache_width(const StateLayout::Cache& cache) {
  return static_cast<std::size_t>(cache.kv_heads) * static_cast<std::size_t>(cache.head_dim);
}

std::size_t delta_size(const StateLayout::Delta& delta) {
  return static_cast<std::size_t>(delta.value_heads) * static_cast<std::size_t>(delta.key_dim) *
         static_cast<std::size_t>(delta.value_dim);
}

template <class T>
void copy_part(std::vector<T>& all, std::size_t size, std::int32_t from, std::int32_t to) {
  std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(size) * from, size,
              all.begin() + static_cast<std::ptrdiff_t>(size) * to);
}

/// Copies bytes in one direction: from floats or into them.
class Reader {
 public:
  explicit Reader(std::span<std::byte> out) : out_(out) {}
  void operator()(const float* floats, std::size_t count) {
    if (count == 0) return;
    std::memcpy(out_.data(), floats, count * sizeof(float));
    out_ = out_.subspan(count * sizeof(float));
  }
  /// A part of the tape that no step has written reads as zeros.
  void operator()(const std::vector<float>& floats, std::size_t count) {
    if (floats.size() == count) return (*this)(floats.data(), count);
    (*this)(std::vector<float>(count).data(), count);
  }

 private:
  std::span<std::byte> out_;
};

class Writer {
 public:
  explicit Writer(std::span<const std::byte> in) : in_(in) {}
  void operator()(float* floats, std::size_t count) {
    if (count == 0) return;
    std::memcpy(floats, in_.data(), count * sizeof(float));
    in_ = in_.subspan(count * sizeof(float));
  }
  void operator()(std::vector<float>& floats, std::size_t count) {
    floats.resize(count);
    (*this)(floats.data(), count);
  }

 private:
  std::span<const std::byte> in_;
};

/// Visits the floats of a block that belong to caches with a window, or of all others, in a fixed order.
template <class Visit>
void visit_caches(RefState& state, std::int32_t block, bool windowed, Visit& visit) {
  for (std::size_t i = 0; i < state.layout.caches.size(); ++i) {
    if ((state.layout.caches[i].sliding_window > 0) != windowed) continue;
    const std::size_t count = kBlockRows * cache_width(state.layout.caches[i]);
    visit(state.key(static_cast<int>(i), block, 0), count);
    visit(state.value(static_cast<int>(i), block, 0), count);
  }
}

/// Visits as many floats of a block as `bytes` are: all, or all without a window.
template <class Visit>
void visit_block(RefState& state, std::int32_t block, std::size_t bytes, Visit visit) {
  visit_caches(state, block, false, visit);
  if (bytes == static_cast<std::size_t>(state.block_bytes())) visit_caches(state, block, true, visit);
}

template <class Visit>
void visit_slot(RefState& state, std::int32_t slot, Visit visit) {
  for (std::size_t i = 0; i < state.layout.conv_states.size(); ++i) {
    visit(state.conv_row(static_cast<int>(i), slot, 0),
          kRing * static_cast<std::size_t>(state.layout.conv_states[i].width));
  }
  for (std::size_t i = 0; i < state.layout.deltas.size(); ++i) {
    const StateLayout::Delta& delta = state.layout.deltas[i];
    const auto heads = static_cast<std::size_t>(delta.value_heads);
    visit(state.delta(static_cast<int>(i), slot), delta_size(delta));
    for (int row = 0; row < 2 * kMaxTapeRows; ++row) {
      auto& entry = state.tape(static_cast<int>(i), slot, row / kMaxTapeRows, row % kMaxTapeRows);
      visit(entry.k, static_cast<std::size_t>(delta.key_heads) * static_cast<std::size_t>(delta.key_dim));
      visit(entry.d, heads * static_cast<std::size_t>(delta.value_dim));
      visit(entry.g, heads);
    }
  }
}

}  // namespace

RefState::RefState(const StateLayout& state_layout, const StateOptions& state_options)
    : layout(state_layout), options(state_options) {
  const auto slots = static_cast<std::size_t>(options.slots);
  for (const auto& cache : layout.caches) {
    keys_.emplace_back(static_cast<std::size_t>(options.blocks) * kBlockRows * cache_width(cache));
    values_.emplace_back(keys_.back().size());
  }
  for (const auto& conv : layout.conv_states) {
    FT_ASSERT(conv.kernel_width + kMaxTapeRows + 1 <= kRing);
    conv_rings_.emplace_back(slots * kRing * static_cast<std::size_t>(conv.width));
  }
  for (const auto& delta : layout.deltas) {
    deltas_.emplace_back(slots * delta_size(delta));
    tapes_.emplace_back(slots * 2 * kMaxTapeRows);
  }
}

void RefState::copy_block(std::int32_t from, std::int32_t to) {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    copy_part(keys_[i], kBlockRows * cache_width(layout.caches[i]), from, to);
    copy_part(values_[i], kBlockRows * cache_width(layout.caches[i]), from, to);
  }
}

void RefState::copy_slot(std::int32_t from, std::int32_t to) {
  for (std::size_t i = 0; i < conv_rings_.size(); ++i) {
    copy_part(conv_rings_[i], kRing * static_cast<std::size_t>(layout.conv_states[i].width), from, to);
  }
  for (std::size_t i = 0; i < deltas_.size(); ++i) {
    copy_part(deltas_[i], delta_size(layout.deltas[i]), from, to);
    copy_part(tapes_[i], 2 * kMaxTapeRows, from, to);
  }
}

std::int64_t RefState::bytes() const {
  std::size_t floats = 0;
  for (const auto* group : {&keys_, &values_, &conv_rings_, &deltas_}) {
    for (const auto& part : *group) floats += part.size();
  }
  return static_cast<std::int64_t>(floats * sizeof(float));
}

std::int64_t RefState::block_bytes() const { return limits(layout).block_bytes; }
std::int64_t RefState::slot_bytes() const { return limits(layout).slot_bytes; }

Limits RefState::limits(const StateLayout& layout) {
  std::size_t block = 0, slot = 0;
  Limits limits;
  for (const auto& cache : layout.caches) {
    const std::size_t floats = 2 * kBlockRows * cache_width(cache);
    block += floats;
    if (cache.sliding_window == 0) continue;
    limits.sliding_window_part.positions =
        std::max(limits.sliding_window_part.positions, cache.sliding_window);
    limits.sliding_window_part.block_bytes += static_cast<std::int64_t>(floats * sizeof(float));
  }
  for (const auto& conv : layout.conv_states) slot += kRing * static_cast<std::size_t>(conv.width);
  for (const auto& delta : layout.deltas) {
    const int entry =
        delta.key_heads * delta.key_dim + delta.value_heads * delta.value_dim + delta.value_heads;
    slot += delta_size(delta) + 2 * kMaxTapeRows * static_cast<std::size_t>(entry);
  }
  limits.block_bytes = static_cast<std::int64_t>(block * sizeof(float));
  limits.slot_bytes = static_cast<std::int64_t>(slot * sizeof(float));
  return limits;
}

// The visitors only read through a Reader; the accessors exist in one form, for steps.
void RefState::read_block(std::int32_t block, std::span<std::byte> out) const {
  visit_block(const_cast<RefState&>(*this), block, out.size(), Reader(out));  // NOLINT(*-const-cast)
}
void RefState::write_block(std::int32_t block, std::span<const std::byte> in) {
  visit_block(*this, block, in.size(), Writer(in));
}
void RefState::release_sliding_window(std::int32_t block) {
  auto spoil = [](float* floats, std::size_t count) {
    std::fill_n(floats, count, std::numeric_limits<float>::quiet_NaN());
  };
  visit_caches(*this, block, true, spoil);
}
void RefState::read_slot(std::int32_t slot, std::span<std::byte> out) const {
  visit_slot(const_cast<RefState&>(*this), slot, Reader(out));  // NOLINT(*-const-cast)
}
void RefState::write_slot(std::int32_t slot, std::span<const std::byte> in) {
  visit_slot(*this, slot, Writer(in));
}

float* RefState::key(int cache, std::int32_t block, int row) {
  const std::size_t width = cache_width(layout.caches[static_cast<std::size_t>(cache)]);
  return keys_[static_cast<std::size_t>(cache)].data() +
         (static_cast<std::size_t>(block) * kBlockRows + row) * width;
}

float* RefState::value(int cache, std::int32_t block, int row) {
  const std::size_t width = cache_width(layout.caches[static_cast<std::size_t>(cache)]);
  return values_[static_cast<std::size_t>(cache)].data() +
         (static_cast<std::size_t>(block) * kBlockRows + row) * width;
}

float* RefState::conv_row(int state, std::int32_t slot, std::int64_t position) {
  const auto width = static_cast<std::size_t>(layout.conv_states[static_cast<std::size_t>(state)].width);
  const std::size_t row = static_cast<std::size_t>(slot) * kRing + static_cast<std::size_t>(position % kRing);
  return conv_rings_[static_cast<std::size_t>(state)].data() + row * width;
}

float* RefState::delta(int state, std::int32_t slot) {
  const std::size_t size = delta_size(layout.deltas[static_cast<std::size_t>(state)]);
  return deltas_[static_cast<std::size_t>(state)].data() + static_cast<std::size_t>(slot) * size;
}

TapeEntry& RefState::tape(int state, std::int32_t slot, int which, int row) {
  return tapes_[static_cast<std::size_t>(state)]
               [static_cast<std::size_t>((slot * 2 + which) * kMaxTapeRows + row)];
}

}  // namespace ft::ref
