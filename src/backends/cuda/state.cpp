#include "backends/cuda/state.h"

#include <fmt/format.h>

#include "backends/cuda/arguments.h"

namespace ft::cuda {

static_assert(kCacheRows == kBlockRows && kRingRows == kRing && kTapeRows == kMaxTapeRows);

int padded_keys(int key_dim) {
  for (const int keys : {32, 64, 128, 256}) {
    if (key_dim <= keys) return keys;
  }
  return 0;
}

StatePlan::StatePlan(const StateLayout& layout, int kv_bits) {
  constexpr std::int64_t kFloat = sizeof(float);
  for (const StateLayout::Cache& cache : layout.caches) {
    const std::int64_t scales = kv_bits == 8 ? 2 * kBlockRows * kFloat : 0;
    const std::int64_t head =
        round_up(2 * kBlockRows * std::int64_t{cache.head_dim} * kv_bits / 8 + scales, 16);
    caches.push_back(block_bytes);
    head_bytes.push_back(head);
    block_bytes += head * cache.kv_heads;
  }
  for (const StateLayout::ConvState& conv : layout.conv_states) {
    conv_rings.push_back(slot_bytes);
    slot_bytes += round_up(kRing * std::int64_t{conv.width} * kFloat, 16);
  }
  for (const StateLayout::Delta& shape : layout.deltas) {
    Delta delta;
    delta.state = slot_bytes;
    slot_bytes += std::int64_t{shape.value_heads} * shape.value_dim * padded_keys(shape.key_dim) * kFloat;
    delta.tape = slot_bytes;
    delta.entry = static_cast<int>(round_up(std::int64_t{shape.key_heads} * shape.key_dim +
                                                std::int64_t{shape.value_heads} * (shape.value_dim + 1),
                                            4));
    slot_bytes += 2 * kMaxTapeRows * std::int64_t{delta.entry} * kFloat;
    deltas.push_back(delta);
  }
}

Result<std::unique_ptr<State>> CudaState::make(std::shared_ptr<Device> device, const StateLayout& layout,
                                               const StateOptions& options, int kv_bits) {
  if (options.slots < 1 || options.blocks < 1)
    return Error{Code::kInvalid, "cuda backend: a state needs at least one slot and one block"};
  for (const StateLayout::ConvState& conv : layout.conv_states) {
    if (conv.kernel_width + kMaxTapeRows + 1 > kRing || conv.kernel_width > kMaxTaps) {
      return Error{Code::kUnsupported,
                   fmt::format("cuda backend: a convolution of {} taps; it takes at most {}",
                               conv.kernel_width, kMaxTaps)};
    }
  }
  const auto give = device.get();
  std::unique_ptr<CudaState> state(new CudaState(std::move(device), StatePlan(layout, kv_bits)));
  const std::int64_t blocks = state->plan_.block_bytes * options.blocks,
                     slots = state->plan_.slot_bytes * options.slots;
  state->blocks_ = Memory(state->device_, static_cast<std::size_t>(blocks));
  state->slots_ = Memory(state->device_, static_cast<std::size_t>(slots));
  if (state->blocks_.empty() || state->slots_.empty()) {
    state->blocks_ = {};
    return no_memory(*give, "key/value cache and states", blocks + slots,
                     "ask for a smaller context (--context) or fewer streams");
  }
  // Positions that a query does not see have weight 0, which must not meet a NaN.
  give->clear(state->blocks_.at(), state->blocks_.bytes());
  give->clear(state->slots_.at(), state->slots_.bytes());
  give->wait();
  return std::unique_ptr<State>(std::move(state));
}

void CudaState::copy_block(std::int32_t from, std::int32_t to) {
  device_->copy(block(to), block(from), static_cast<std::size_t>(plan_.block_bytes));
}
void CudaState::copy_slot(std::int32_t from, std::int32_t to) {
  device_->copy(slot(to), slot(from), static_cast<std::size_t>(plan_.slot_bytes));
}
void CudaState::read_block(std::int32_t number, std::span<std::byte> out) const {
  device_->read_settled(out.data(), block(number), out.size());
}
void CudaState::write_block(std::int32_t number, std::span<const std::byte> in) {
  device_->copy_in(block(number), in.data(), in.size());
  device_->wait();
}
void CudaState::read_slot(std::int32_t number, std::span<std::byte> out) const {
  device_->read_settled(out.data(), slot(number), out.size());
}
void CudaState::write_slot(std::int32_t number, std::span<const std::byte> in) {
  device_->copy_in(slot(number), in.data(), in.size());
  device_->wait();
}

}  // namespace ft::cuda
