// The cpu backend's memory of timelines. Everything is float32 except the cache, which is float16 (saturated)
// or 8-bit codes. With codes, kBlockRows float scales, one per position, follow a head's keys, and another
// kBlockRows its values. Caches with a window begin on a page, so that a block outside it can return its
// memory.
//   cache   per layer [blocks][kv_heads][keys: head_dim, kBlockRows | values: kBlockRows, padded head_dim]
//   ring    per convolution [slots][kRing, width]; position p is at p % kRing
//   delta   per layer [slots][value_heads][tiles of kDeltaTile columns: key_dim, tile]
//   tape    per layer [slots][2][kMaxTapeRows]
//                     [k: key_heads, key_dim | d: value_heads, padded value_dim | g: value_heads]
// Owner: the caller of make_state. Thread: the engine thread and, during a step, the workers on disjoint
// parts. Cost: one mapping at construction. Errors: make() says how much memory was missing.
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/memory.h"
#include "base/result.h"
#include "program/backend.h"

namespace ft::cpu {

class CpuState final : public State {
 public:
  /// `kv_bits`: bits of a cache element, 16 or 8.
  static Result<std::unique_ptr<State>> make(const StateLayout& layout, const StateOptions& options,
                                             int kv_bits);
  /// Bytes of each block and slot of such a state; nothing is allocated.
  static Limits limits(const StateLayout& layout, int kv_bits);

  void copy_block(std::int32_t from, std::int32_t to) override;
  void copy_slot(std::int32_t from, std::int32_t to) override;
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t block_bytes() const override { return bytes_of(block_parts_); }
  std::int64_t slot_bytes() const override { return bytes_of(slot_parts_); }
  void read_block(std::int32_t block, std::span<std::byte> out) const override;
  void write_block(std::int32_t block, std::span<const std::byte> in) override;
  void read_slot(std::int32_t slot, std::span<std::byte> out) const override;
  void write_slot(std::int32_t slot, std::span<const std::byte> in) override;
  SlidingWindowPart sliding_window_part() const override { return sliding_window_part_; }
  void release_sliding_window(std::int32_t block) override;
  void release_unused(std::span<const std::int32_t> blocks, std::span<const std::int32_t> slots) override;

  struct Cache {
    std::byte* keys = nullptr;  // of block 0, key/value head 0
    int kv_heads = 0, head_dim = 0, padded = 0;
    int bits = 16;                 // of an element, 16 or 8
    std::int64_t keys_bytes = 0;   // of a key/value head's keys; its values follow
    std::int64_t head_stride = 0;  // bytes between key/value heads
    std::int64_t block_stride = 0;
    bool windowed = false;
  };
  struct Delta {
    float* state = nullptr;  // of slot 0
    float* tape = nullptr;
    int key_heads = 0, value_heads = 0, key_dim = 0, padded = 0;  // padded value_dim
    std::int64_t head_stride = 0, slot_stride = 0;
    std::int64_t entry_stride = 0;  // floats of one tape entry
  };
  struct ConvRing {
    float* rows = nullptr;
    std::int64_t width = 0;
  };

  const Cache& cache(int index) const { return caches_[static_cast<std::size_t>(index)]; }
  const Delta& delta(int index) const { return deltas_[static_cast<std::size_t>(index)]; }
  float* conv_row(int index, std::int32_t slot, std::int64_t position) const {
    const ConvRing& ring = conv_rings_[static_cast<std::size_t>(index)];
    return ring.rows + (slot * std::int64_t{kRing} + position % kRing) * ring.width;
  }
  float* tape(const Delta& delta, std::int32_t slot, int which, int row) const {
    return delta.tape + ((slot * 2 + which) * std::int64_t{kMaxTapeRows} + row) * delta.entry_stride;
  }

 private:
  /// One layer's part of a block or slot; number i is at base + i * bytes.
  struct Part {
    std::byte* base = nullptr;
    std::int64_t bytes = 0;
  };
  CpuState() = default;
  static std::int64_t bytes_of(const std::vector<Part>& parts);
  static void copy(const std::vector<Part>& parts, std::int32_t from, std::int32_t to);
  static void read(const std::vector<Part>& parts, std::int32_t from, std::span<std::byte> out);
  static void write(const std::vector<Part>& parts, std::int32_t to, std::span<const std::byte> in);
  static void release_unused(const std::vector<Part>& parts, std::span<const std::int32_t> numbers);
  static Result<std::unique_ptr<State>> make_unguarded(const StateLayout& layout, const StateOptions& options,
                                                       int kv_bits);
  /// Lays everything out from `base` (null: only counts) and returns the number of floats.
  std::int64_t lay_out(const StateLayout& layout, const StateOptions& options, float* base);
  void list_parts();

  Memory memory_;
  int kv_bits_ = 16;
  std::int64_t bytes_ = 0;
  std::vector<Cache> caches_;
  std::vector<ConvRing> conv_rings_;
  std::vector<Delta> deltas_;
  std::vector<Part> block_parts_, slot_parts_;  // block parts: those with a window last
  std::size_t full_parts_ = 0;                  // block parts without a window
  SlidingWindowPart sliding_window_part_;
};

}  // namespace ft::cpu
