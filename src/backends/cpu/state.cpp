#include "backends/cpu/state.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "backends/cpu/kernels/kernels.h"
#include "format/out_of_memory.h"

namespace ft::cpu {

static_assert(kKeyRows == kBlockRows);

namespace {

constexpr std::int64_t kPageFloats = 1024;

}  // namespace

Result<std::unique_ptr<State>> CpuState::make(const StateLayout& layout, const StateOptions& options,
                                              int kv_bits) {
  return format::with_memory_guard("make a state", "cpu backend",
                                   [&] { return make_unguarded(layout, options, kv_bits); });
}

Result<std::unique_ptr<State>> CpuState::make_unguarded(const StateLayout& layout,
                                                        const StateOptions& options, int kv_bits) {
  if (options.slots < 1 || options.blocks < 1) {
    return Error{Code::kInvalid, "cpu backend: a state needs at least one slot and one block"};
  }
  for (const StateLayout::ConvState& conv : layout.conv_states) {
    if (conv.kernel_width + kMaxTapeRows + 1 > kRing) {
      return Error{Code::kUnsupported,
                   fmt::format("cpu backend: a convolution kernel of width {}; the maximum is {}",
                               conv.kernel_width, kRing - kMaxTapeRows - 1)};
    }
  }
  std::unique_ptr<CpuState> state(new CpuState());
  state->kv_bits_ = kv_bits;
  state->bytes_ = state->lay_out(layout, options, nullptr) * static_cast<std::int64_t>(sizeof(float));
  // Windowed parts are rarely all in memory, and a prefix cache bounds its blocks and states together. So the
  // sum of all may exceed the machine's memory, which is taken at first use.
  const std::int64_t bytes = state->bytes_;
  state->memory_ = options.releases_sliding_windows ? Memory::reserve(bytes) : Memory::allocate(bytes);
  if (state->memory_.empty()) {
    return Error{
        Code::kExhausted,
        fmt::format("cpu backend: no memory for {:.2f} GB of key/value cache and states ({} blocks of {} "
                    "positions, {} slots); use a smaller --context or fewer --slots",
                    static_cast<double>(state->bytes_) * 1e-9, options.blocks, kBlockRows, options.slots)};
  }
  state->lay_out(layout, options, state->memory_.floats());
  state->list_parts();
  return std::unique_ptr<State>(std::move(state));
}

Limits CpuState::limits(const StateLayout& layout, int kv_bits) {
  CpuState state;
  state.kv_bits_ = kv_bits;
  state.lay_out(layout, {1, 1}, nullptr);
  state.list_parts();
  Limits limits;
  limits.block_bytes = state.block_bytes();
  limits.slot_bytes = state.slot_bytes();
  limits.sliding_window_part = state.sliding_window_part();
  return limits;
}

std::int64_t CpuState::lay_out(const StateLayout& layout, const StateOptions& options, float* base) {
  caches_.clear();
  conv_rings_.clear();
  deltas_.clear();
  sliding_window_part_ = {};
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
    cache.bits = kv_bits_;
    const auto bytes_of_rows = [&](int width) {
      const auto scales = static_cast<std::int64_t>(kv_bits_ == 8 ? sizeof(float) : 0);
      return (static_cast<std::int64_t>(width) * kv_bits_ / 8 + scales) * kBlockRows;
    };
    cache.keys_bytes = bytes_of_rows(cache.head_dim);
    cache.head_stride = cache.keys_bytes + bytes_of_rows(cache.padded);
    cache.block_stride = cache.head_stride * shape.kv_heads;
    constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));  // every stride is a multiple of it
    cache.windowed = shape.sliding_window > 0;
    if (cache.windowed) {
      sliding_window_part_.positions = std::max(sliding_window_part_.positions, shape.sliding_window);
      sliding_window_part_.block_bytes += cache.block_stride;
      used = round_up(used, kPageFloats);
    }
    cache.keys = reinterpret_cast<std::byte*>(take(cache.block_stride * options.blocks / kFloat));
    caches_.push_back(cache);
  }
  for (const StateLayout::ConvState& shape : layout.conv_states) {
    conv_rings_.push_back({take(std::int64_t{kRing} * shape.width * options.slots), shape.width});
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

void CpuState::list_parts() {
  const auto part = [](auto* base, std::int64_t count) {
    return Part{reinterpret_cast<std::byte*>(base), count * static_cast<std::int64_t>(sizeof(*base))};
  };
  block_parts_.clear(), slot_parts_.clear();
  for (const bool windowed : {false, true}) {
    for (const Cache& cache : caches_) {
      if (cache.windowed == windowed) block_parts_.push_back(part(cache.keys, cache.block_stride));
    }
    if (!windowed) full_parts_ = block_parts_.size();
  }
  for (const ConvRing& ring : conv_rings_) slot_parts_.push_back(part(ring.rows, kRing * ring.width));
  for (const Delta& delta : deltas_) {
    slot_parts_.push_back(part(delta.state, delta.slot_stride));
    slot_parts_.push_back(part(delta.tape, 2 * kMaxTapeRows * delta.entry_stride));
  }
}

std::int64_t CpuState::bytes_of(const std::vector<Part>& parts) {
  std::int64_t bytes = 0;
  for (const Part& part : parts) bytes += part.bytes;
  return bytes;
}

void CpuState::copy(const std::vector<Part>& parts, std::int32_t from, std::int32_t to) {
  for (const Part& part : parts) {
    std::memcpy(part.base + to * part.bytes, part.base + from * part.bytes,
                static_cast<std::size_t>(part.bytes));
  }
}

void CpuState::read(const std::vector<Part>& parts, std::int32_t from, std::span<std::byte> out) {
  for (const Part& part : parts) {
    if (out.empty()) return;
    std::memcpy(out.data(), part.base + from * part.bytes, static_cast<std::size_t>(part.bytes));
    out = out.subspan(static_cast<std::size_t>(part.bytes));
  }
}

void CpuState::write(const std::vector<Part>& parts, std::int32_t to, std::span<const std::byte> in) {
  for (const Part& part : parts) {
    if (in.empty()) return;
    std::memcpy(part.base + to * part.bytes, in.data(), static_cast<std::size_t>(part.bytes));
    in = in.subspan(static_cast<std::size_t>(part.bytes));
  }
}

/// Neighbours go together: a strip may be smaller than a page.
void CpuState::release_unused(const std::vector<Part>& parts, std::span<const std::int32_t> numbers) {
  std::vector<std::int32_t> sorted(numbers.begin(), numbers.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    for (end = begin + 1; end < sorted.size() && sorted[end] == sorted[end - 1] + 1;) ++end;
    const auto count = static_cast<std::int64_t>(end - begin);
    for (const Part& part : parts) {
      Memory::return_to_system(part.base + sorted[begin] * part.bytes, count * part.bytes);
    }
  }
}

void CpuState::release_sliding_window(std::int32_t block) {
  for (std::size_t i = full_parts_; i < block_parts_.size(); ++i) {
    const Part& part = block_parts_[i];
    Memory::return_to_system(part.base + block * part.bytes, part.bytes);
  }
}

void CpuState::release_unused(std::span<const std::int32_t> blocks, std::span<const std::int32_t> slots) {
  release_unused(block_parts_, blocks);
  release_unused(slot_parts_, slots);
}

void CpuState::copy_block(std::int32_t from, std::int32_t to) { copy(block_parts_, from, to); }
void CpuState::copy_slot(std::int32_t from, std::int32_t to) { copy(slot_parts_, from, to); }
void CpuState::read_block(std::int32_t block, std::span<std::byte> out) const {
  read(block_parts_, block, out);
}
void CpuState::write_block(std::int32_t block, std::span<const std::byte> in) {
  write(block_parts_, block, in);
}
void CpuState::read_slot(std::int32_t slot, std::span<std::byte> out) const { read(slot_parts_, slot, out); }
void CpuState::write_slot(std::int32_t slot, std::span<const std::byte> in) { write(slot_parts_, slot, in); }

}  // namespace ft::cpu
