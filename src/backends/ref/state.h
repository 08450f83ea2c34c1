// The reference backend's memory of timelines, laid out for reading and not for speed: one vector per layer.
// Owner: the caller of make_state. Cost: everything is allocated at once.
#pragma once

#include <vector>

#include "program/backend.h"

namespace ft::ref {

/// The update of one layer's recurrent state by one unconfirmed token: S = g * S + k d^T.
struct TapeEntry {
  std::vector<float> k;  // [key_heads, key_dim], normalised
  std::vector<float> d;  // [value_heads, value_dim]
  std::vector<float> g;  // [value_heads]
};

struct RefState final : State {
  RefState(const StateLayout& state_layout, const StateOptions& state_options);
  /// Bytes of each block and slot of such a state; nothing is allocated.
  static Limits limits(const StateLayout& layout);
  void copy_block(std::int32_t from, std::int32_t to) override;
  void copy_slot(std::int32_t from, std::int32_t to) override;
  std::int64_t bytes() const override;
  std::int64_t block_bytes() const override;
  std::int64_t slot_bytes() const override;
  void read_block(std::int32_t block, std::span<std::byte> out) const override;
  void write_block(std::int32_t block, std::span<const std::byte> in) override;
  void read_slot(std::int32_t slot, std::span<std::byte> out) const override;
  void write_slot(std::int32_t slot, std::span<const std::byte> in) override;
  SlidingWindowPart sliding_window_part() const override { return limits(layout).sliding_window_part; }
  /// Makes it NaN, so that a test finds a read.
  void release_sliding_window(std::int32_t block) override;

  float* key(int cache, std::int32_t block, int row);                    // [kv_heads, head_dim]
  float* value(int cache, std::int32_t block, int row);                  // [kv_heads, head_dim]
  float* conv_row(int state, std::int32_t slot, std::int64_t position);  // [width]
  float* delta(int state, std::int32_t slot);                            // [value_heads, key_dim, value_dim]
  TapeEntry& tape(int state, std::int32_t slot, int which, int row);

  StateLayout layout;
  StateOptions options;

 private:
  std::vector<std::vector<float>> keys_, values_;  // per cache: [blocks, kBlockRows, kv_heads * head_dim]
  std::vector<std::vector<float>> conv_rings_;     // per convolution: [slots, kRing, width]
  std::vector<std::vector<float>> deltas_;         // per state: [slots, value_heads, key_dim, value_dim]
  std::vector<std::vector<TapeEntry>> tapes_;      // per state: [slots, 2, kMaxTapeRows]
};

}  // namespace ft::ref
