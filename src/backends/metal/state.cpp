#include "backends/metal/state.h"

#include <cstring>

namespace ft::metal {
namespace {

constexpr int kStateColumns = 8, kQuarters = 4, kStateLanes = 32;  // of kernels/state.h

}  // namespace

int keys_of_lane(int key_dim) {
  for (const int keys : {8, 16, 32, 64}) {
    if (key_dim <= keys * kQuarters) return keys;
  }
  return 0;
}

StatePlan::StatePlan(const StateLayout& layout, int bits) : kv_bits(bits) {
  const auto count = [](int number) { return static_cast<unsigned>(number); };
  for (const StateLayout::Cache& cache : layout.caches) {
    caches.push_back(block_halves);
    const unsigned size = count(cache.head_dim);
    block_halves +=
        2U * count(cache.kv_heads) * (bits == 8 ? kBlockRows / 2U * (size + 4U) : kBlockRows * size);
  }
  for (const StateLayout::ConvState& conv : layout.conv_states) {
    conv_rings.push_back(slot_floats);
    slot_floats += count(kRing) * count(conv.width);
  }
  for (const StateLayout::Delta& shape : layout.deltas) {
    const unsigned groups = count((shape.value_dim + kStateColumns - 1) / kStateColumns);
    const unsigned matrix =
        count(shape.value_heads) * groups * count(keys_of_lane(shape.key_dim)) * count(kStateLanes);
    const unsigned entry =
        count(shape.key_heads * shape.key_dim + shape.value_heads * shape.value_dim + shape.value_heads);
    deltas.push_back({slot_floats, slot_floats + matrix});
    slot_floats += matrix + 2U * kMaxTapeRows * entry;
  }
}

Result<std::unique_ptr<State>> MetalState::make(const std::shared_ptr<Device>& device,
                                                const StateLayout& layout, const StateOptions& options,
                                                int kv_bits) {
  std::unique_ptr<MetalState> state(new MetalState(device, layout, kv_bits));
  const auto bytes = [](int number, std::int64_t each) {
    return static_cast<std::size_t>(number) * static_cast<std::size_t>(each);
  };
  FT_ASSIGN(state->blocks_, Memory::make(device, bytes(options.blocks, state->block_bytes())));
  FT_ASSIGN(state->slots_, Memory::make(device, bytes(options.slots, state->slot_bytes())));
  return std::unique_ptr<State>(std::move(state));
}

void MetalState::copy_block(std::int32_t from, std::int32_t to) {
  device_->wait_idle();
  std::memcpy(block(to), block(from), static_cast<std::size_t>(block_bytes()));
}
void MetalState::copy_slot(std::int32_t from, std::int32_t to) {
  device_->wait_idle();
  std::memcpy(slot(to), slot(from), static_cast<std::size_t>(slot_bytes()));
}
void MetalState::read_block(std::int32_t number, std::span<std::byte> out) const {
  device_->wait_idle();
  if (!out.empty()) std::memcpy(out.data(), block(number), out.size());
}
void MetalState::write_block(std::int32_t number, std::span<const std::byte> in) {
  device_->wait_idle();
  if (!in.empty()) std::memcpy(block(number), in.data(), in.size());
}
void MetalState::read_slot(std::int32_t number, std::span<std::byte> out) const {
  device_->wait_idle();
  if (!out.empty()) std::memcpy(out.data(), slot(number), out.size());
}
void MetalState::write_slot(std::int32_t number, std::span<const std::byte> in) {
  device_->wait_idle();
  if (!in.empty()) std::memcpy(slot(number), in.data(), in.size());
}

}  // namespace ft::metal
