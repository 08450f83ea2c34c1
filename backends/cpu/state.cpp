#include "backends/cpu/state.h"

#include <cstring>
#include <fmt/format.h>

#include "backends/cpu/kernels.h"
#include "format/out_of_memory.h"

namespace ft::cpu {
namespace {

static_assert(kKeyRows == kBlockRows);

void copy_floats(const float* from, float* to, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace

Result<std::unique_ptr<State>> CpuState::make(const StateLayout& layout, const StateOptions& options) {
  return format::with_memory_guard("make a state", "cpu backend",
                                   [&] { return make_unguarded(layout, options); });
}

Result<std::unique_ptr<State>> CpuState::make_unguarded(const StateLayout& layout,
                                                        const StateOptions& options) {
  if (options.slots < 1 || options.blocks < 1) {
    return Error{Code::kInvalid, "cpu backend: a state needs at least one slot and one block"};
  }
  for (const StateLayout::Window& window : layout.windows) {
    if (window.taps + kMaxTapeRows + 1 > kRing) {
      return Error{Code::kUnsupported,
                   fmt::format("cpu backend: a convolution of {} taps; it takes at most {}", window.taps,
                               kRing - kMaxTapeRows - 1)};
    }
  }
  std::unique_ptr<CpuState> state(new CpuState());
  state->bytes_ = state->lay_out(layout, options, nullptr) * static_cast<std::int64_t>(sizeof(float));
  state->memory_ = Memory::allocate(state->bytes_);
  if (state->memory_.empty()) {
    return Error{
        Code::kExhausted,
        fmt::format("cpu backend: no memory for {:.2f} GB of key/value cache and states ({} blocks of {} "
                    "positions, {} slots); ask for a smaller context or fewer streams",
                    static_cast<double>(state->bytes_) * 1e-9, options.blocks, kBlockRows, options.slots)};
  }
  state->lay_out(layout, options, state->memory_.floats());
  return std::unique_ptr<State>(std::move(state));
}

std::int64_t CpuState::lay_out(const StateLayout& layout, const StateOptions& options, float* base) {
  caches_.clear();
  windows_.clear();
  deltas_.clear();
  std::int64_t used = 0;
  const auto take = [&](std::int64_t floats) {
    float* at = base == nullptr ? nullptr : base + used;
    used += round_up(floats, kLanes);
    return at;
  };
  for (const StateLayout::Cache& shape : layout.caches) {
    Cache cache;
    cache.kv_heads = shape.kv_heads;
    cache.head_dim = shape.head_dim;
    cache.padded = static_cast<int>(round_up(shape.head_dim, kLanes));
    cache.keys_size = static_cast<std::int64_t>(shape.head_dim) * kBlockRows;
    cache.head_stride = cache.keys_size + static_cast<std::int64_t>(cache.padded) * kBlockRows;
    cache.block_stride = cache.head_stride * shape.kv_heads;
    cache.keys = reinterpret_cast<std::uint16_t*>(take(round_up(cache.block_stride * options.blocks, 2) / 2));
    caches_.push_back(cache);
  }
  for (const StateLayout::Window& shape : layout.windows) {
    windows_.push_back({take(std::int64_t{kRing} * shape.width * options.slots), shape.width});
  }
  for (const StateLayout::Delta& shape : layout.deltas) {
    Delta delta;
    delta.key_heads = shape.key_heads;
    delta.value_heads = shape.value_heads;
    delta.key_dim = shape.key_dim;
    delta.padded = static_cast<int>(round_up(shape.value_dim, kLanes));
    delta.head_stride = static_cast<std::int64_t>(shape.key_dim) * delta.padded;
    delta.slot_stride = delta.head_stride * shape.value_heads;
    delta.entry_stride = round_up(static_cast<std::int64_t>(shape.key_heads) * shape.key_dim +
                                      static_cast<std::int64_t>(shape.value_heads) * (delta.padded + 1),
                                  kLanes);
    delta.state = take(delta.slot_stride * options.slots);
    delta.tape = take(2 * kMaxTapeRows * delta.entry_stride * options.slots);
    deltas_.push_back(delta);
  }
  return used;
}

void CpuState::copy_block(std::int32_t from, std::int32_t to) {
  for (const Cache& cache : caches_) {
    std::memcpy(cache.keys + to * cache.block_stride, cache.keys + from * cache.block_stride,
                static_cast<std::size_t>(cache.block_stride) * sizeof(std::uint16_t));
  }
}

void CpuState::copy_slot(std::int32_t from, std::int32_t to) {
  for (const Window& window : windows_) {
    const std::int64_t size = kRing * window.width;
    copy_floats(window.rows + from * size, window.rows + to * size, size);
  }
  for (const Delta& delta : deltas_) {
    copy_floats(delta.state + from * delta.slot_stride, delta.state + to * delta.slot_stride,
                delta.slot_stride);
    const std::int64_t size = 2 * kMaxTapeRows * delta.entry_stride;
    copy_floats(delta.tape + from * size, delta.tape + to * size, size);
  }
}

}  // namespace ft::cpu
