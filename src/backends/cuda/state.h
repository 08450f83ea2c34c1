// The cuda backend's memory of timelines: blocks and slots, each in one piece over all layers.
//   block  per attention layer [kv_heads][keys kBlockRows x head_dim, values kBlockRows x head_dim]
//          of float16, or of 8-bit codes with kBlockRows float scales of keys and of values after them
//   slot   convolution rings [kRing, width], then states [value_heads][value_dim][padded key_dim], then
//          tapes [2][kMaxTapeRows][k: key_heads, key_dim | d: value_heads, value_dim | g: value_heads],
//          all float32
// Owner: the caller of make_state. Thread: the engine thread; one second thread may call settle() and
// read_*, which use a stream of copies, so that they do not wait for steps in flight. Errors: make() says how
// much memory was missing.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/device.h"
#include "program/backend.h"

namespace ft::cuda {

/// A column's keys as the kernel holds them: 32, 64, 128 or 256 floats; 0: too many.
int padded_keys(int key_dim);

/// Where each layer's part of a block or slot begins, in bytes.
struct StatePlan {
  StatePlan(const StateLayout& layout, int kv_bits);

  struct Delta {
    std::int64_t state = 0, tape = 0;
    int entry = 0;  // floats of a tape entry
  };
  std::vector<std::int64_t> caches, head_bytes;  // by Attention::cache
  std::vector<std::int64_t> conv_rings;          // by CausalConv1d::state
  std::vector<Delta> deltas;                     // by DeltaRule::state
  std::int64_t block_bytes = 0, slot_bytes = 0;
};

class CudaState final : public State {
 public:
  static Result<std::unique_ptr<State>> make(std::shared_ptr<Device> device, const StateLayout& layout,
                                             const StateOptions& options, int kv_bits);

  void copy_block(std::int32_t from, std::int32_t to) override;
  void copy_slot(std::int32_t from, std::int32_t to) override;
  std::int64_t bytes() const override { return static_cast<std::int64_t>(blocks_.bytes() + slots_.bytes()); }
  std::int64_t block_bytes() const override { return plan_.block_bytes; }
  std::int64_t slot_bytes() const override { return plan_.slot_bytes; }
  void settle() const override { device_->settle(); }
  void read_block(std::int32_t block, std::span<std::byte> out) const override;
  void write_block(std::int32_t block, std::span<const std::byte> in) override;
  void read_slot(std::int32_t slot, std::span<std::byte> out) const override;
  void write_slot(std::int32_t slot, std::span<const std::byte> in) override;

  unsigned char* blocks() const { return blocks_.at<unsigned char>(); }
  unsigned char* slots() const { return slots_.at<unsigned char>(); }

 private:
  CudaState(std::shared_ptr<Device> device, StatePlan plan)
      : device_(std::move(device)), plan_(std::move(plan)) {}
  std::byte* block(std::int32_t number) const { return blocks_.at(number * plan_.block_bytes); }
  std::byte* slot(std::int32_t number) const { return slots_.at(number * plan_.slot_bytes); }

  std::shared_ptr<Device> device_;
  StatePlan plan_;
  Memory blocks_, slots_;
};

}  // namespace ft::cuda
