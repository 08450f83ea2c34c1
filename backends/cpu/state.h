// The cpu backend's memory of timelines. Layouts, float32 but for the cache, which is float16 (saturated):
//   cache   per layer [blocks][kv_heads][keys: head_dim, kBlockRows | values: kBlockRows, padded head_dim]
//   window  per layer [slots][kRing, width]; position p stands at p % kRing
//   delta   per layer [slots][value_heads][tiles of kDeltaTile columns: key_dim, tile]
//   tape    per layer [slots][2][kMaxTapeRows][k: key_heads, key_dim | d: value_heads, padded value_dim | g:
//   value_heads]
// Owner: whoever called make_state. Thread: the engine thread and, during a step, the workers on parts of
// their own. Cost: one mapping at construction. Errors: make() says how much memory was missing.
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/memory.h"
#include "base/result.h"
#include "program/backend.h"

namespace ft::cpu {

class CpuState final : public State {
 public:
  static Result<std::unique_ptr<State>> make(const StateLayout& layout, const StateOptions& options);

  void copy_block(std::int32_t from, std::int32_t to) override;
  void copy_slot(std::int32_t from, std::int32_t to) override;
  std::int64_t bytes() const override { return bytes_; }

  struct Cache {
    std::uint16_t* keys = nullptr;  // of block 0, head 0
    int kv_heads = 0, head_dim = 0, padded = 0;
    std::int64_t keys_size = 0;    // elements of a head's keys; its values follow
    std::int64_t head_stride = 0;  // elements from head to head
    std::int64_t block_stride = 0;
  };
  struct Delta {
    float* state = nullptr;  // of slot 0
    float* tape = nullptr;
    int key_heads = 0, value_heads = 0, key_dim = 0, padded = 0;  // padded value_dim
    std::int64_t head_stride = 0, slot_stride = 0;
    std::int64_t entry_stride = 0;  // floats of one tape entry
  };
  struct Window {
    float* rows = nullptr;
    std::int64_t width = 0;
  };

  const Cache& cache(int index) const { return caches_[static_cast<std::size_t>(index)]; }
  const Delta& delta(int index) const { return deltas_[static_cast<std::size_t>(index)]; }
  float* window(int index, std::int32_t slot, std::int64_t position) const {
    const Window& window = windows_[static_cast<std::size_t>(index)];
    return window.rows + (slot * std::int64_t{kRing} + position % kRing) * window.width;
  }
  float* tape(const Delta& delta, std::int32_t slot, int which, int row) const {
    return delta.tape + ((slot * 2 + which) * std::int64_t{kMaxTapeRows} + row) * delta.entry_stride;
  }

 private:
  CpuState() = default;
  static Result<std::unique_ptr<State>> make_unguarded(const StateLayout& layout,
                                                       const StateOptions& options);
  /// Lays everything out from `base` (null: counts only) and returns the floats that it takes.
  std::int64_t lay_out(const StateLayout& layout, const StateOptions& options, float* base);

  Memory memory_;
  std::int64_t bytes_ = 0;
  std::vector<Cache> caches_;
  std::vector<Window> windows_;
  std::vector<Delta> deltas_;
};

}  // namespace ft::cpu
