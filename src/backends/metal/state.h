// The memory of timelines on the device. A block is, for each cache, [kv_heads][keys, values][32][head_dim]
// of float16, or of bytes and 32 scales; a slot is, for each convolution, its ring, then for each delta rule
// its matrices and its two tapes, in float32 (backends/metal/kernels/state.h). Copies,
// reads and writes wait for all steps, then they are plain copies.
#pragma once

#include <vector>

#include "backends/metal/device.h"
#include "program/backend.h"

namespace ft::metal {

/// Keys of a quarter that a lane of the delta rule holds: 8, 16, 32 or 64; 0: too many.
int keys_of_lane(int key_dim);

struct StatePlan {
  explicit StatePlan(const StateLayout& layout, int kv_bits = 16);

  std::vector<unsigned> caches;      // in 16-bit numbers from the start of a block
  std::vector<unsigned> conv_rings;  // in floats from the start of a slot
  struct Delta {
    unsigned matrix, tape;
  };
  std::vector<Delta> deltas;
  unsigned block_halves = 0, slot_floats = 0;
  int kv_bits;  // of a key or value: 16, or 8 with a float32 scale for each head and position
};

class MetalState final : public State {
 public:
  static Result<std::unique_ptr<State>> make(const std::shared_ptr<Device>& device, const StateLayout& layout,
                                             const StateOptions& options, int kv_bits = 16);
  void copy_block(std::int32_t from, std::int32_t to) override;
  void copy_slot(std::int32_t from, std::int32_t to) override;
  std::int64_t bytes() const override { return static_cast<std::int64_t>(blocks_.bytes() + slots_.bytes()); }
  std::int64_t block_bytes() const override { return std::int64_t{plan_.block_halves} * 2; }
  std::int64_t slot_bytes() const override { return std::int64_t{plan_.slot_floats} * 4; }
  void read_block(std::int32_t block, std::span<std::byte> out) const override;
  void write_block(std::int32_t block, std::span<const std::byte> in) override;
  void read_slot(std::int32_t slot, std::span<std::byte> out) const override;
  void write_slot(std::int32_t slot, std::span<const std::byte> in) override;

  const StatePlan& plan() const { return plan_; }
  Place blocks() const { return blocks_.at(); }
  Place slots() const { return slots_.at(); }

 private:
  MetalState(std::shared_ptr<Device> device, const StateLayout& layout, int kv_bits)
      : device_(std::move(device)), plan_(layout, kv_bits) {}
  std::byte* block(std::int32_t number) const {
    return blocks_.data() + static_cast<std::size_t>(number) * static_cast<std::size_t>(block_bytes());
  }
  std::byte* slot(std::int32_t number) const {
    return slots_.data() + static_cast<std::size_t>(number) * static_cast<std::size_t>(slot_bytes());
  }

  std::shared_ptr<Device> device_;
  StatePlan plan_;
  Memory blocks_, slots_;
};

}  // namespace ft::metal
