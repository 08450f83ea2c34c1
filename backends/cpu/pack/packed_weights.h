// All packed weights of one program: planned one by one, then filled at once. All workers either pack them
// from the checkpoint or map them from the packed-weight cache (prepared.h), which every start checks
// completely. If there is no good cache file, the weights are packed and the file is written for the next
// start. A file that cannot be written is logged and is not a failure. Owner: the executable. Thread: the
// engine thread; the pool's workers join it in fill(). Cost: packing reads and writes every weight, mapping
// reads the file. Errors: formats without a kernel, no memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/memory.h"
#include "backends/cpu/pack/pack.h"
#include "backends/cpu/pack/packed_cache.h"
#include "backends/registry.h"
#include "base/thread_pool.h"

namespace ft::cpu {

class PackedWeights {
 public:
  /// `ids`: the listed rows in order; empty: all rows. `max_weight_bits`: see plan_pack.
  Status add(const Weight& weight, const std::vector<std::int32_t>& ids, int max_weight_bits);
  Status fill(ThreadPool& pool, const PackedCacheOptions& packed_cache, const PackProgress& progress);

  /// In the order of add(); it has data once filled.
  const Packed* at(std::size_t index) const { return &packed_[index]; }
  std::int64_t bytes() const { return bytes_; }

 private:
  /// What to pack, and the listed rows if not all.
  struct Job {
    Weight weight;
    std::vector<std::int32_t> ids;
    std::int64_t offset = 0;
  };

  PackedCacheKey key(const PackedCacheOptions& packed_cache) const;
  Status map(ThreadPool& pool, const PackedCacheKey& key);
  Status pack(ThreadPool& pool, const PackProgress& progress);
  Status keep(ThreadPool& pool, const PackedCacheKey& key, const PackProgress& progress) const;
  void place(const std::byte* data);

  std::vector<Job> jobs_;  // released once filled
  std::vector<Packed> packed_;
  std::int64_t bytes_ = 0;
  Memory memory_;
  PackedFile file_;
};

}  // namespace ft::cpu
