// All packed weights of one program: planned one by one, then filled at once. All workers either pack them
// from the checkpoint or map them from the packed-weight cache (packed_cache.h), which every start checks
// completely. If there is no good cache file, it is written first, one weight after the other, so that a
// model larger than memory can be packed too. A file that cannot be written is logged and is not a failure:
// the weights are packed into memory. Programs of one backend share a weight that is packed in the same
// way, as the MTP head and its target share the LM head if the MTP head drafts from the whole vocabulary. A
// weight that a program has twice is packed once. A page of a mapped file may be far from the core that
// reads it, so on several memory nodes each worker copies its part of the file's weights; the system may
// then drop the file's pages. Thread: the engine thread; the pool's workers join it in fill(). Cost:
// packing reads and writes every weight, mapping reads the file. Errors: formats without a kernel, no
// memory.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cpu/memory.h"
#include "backends/cpu/pack/pack.h"
#include "backends/options.h"
#include "backends/packed_cache.h"
#include "base/thread_pool.h"

namespace ft::cpu {

/// Where the packed weights of one program are.
struct PackedMemory {
  Memory memory;
  PackedFile file;
  const std::byte* data() const { return file.data() != nullptr ? file.data() : memory.data(); }
};

/// The packed weights of a backend's programs, while a program uses them.
class SharedWeights {
 public:
  struct Entry {
    Packed packed;  // with data
    std::weak_ptr<const PackedMemory> memory;
  };
  /// Null: no program has packed it.
  std::shared_ptr<const PackedMemory> find(const std::string& key, Packed& packed) const;
  void add(std::string key, const Packed& packed, const std::shared_ptr<const PackedMemory>& memory);
  /// Drops weights that no program uses any more.
  void tidy();

 private:
  std::unordered_map<std::string, Entry> entries_;  // by key
};

class PackedWeights {
 public:
  /// `shared` may outlive its backend.
  explicit PackedWeights(std::shared_ptr<SharedWeights> shared) : shared_(std::move(shared)) {}
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;
  /// `ids`: the listed rows in order; empty: all rows. `max_weight_bits`: see plan_pack.
  Status add(const Weight& weight, const std::vector<std::int32_t>& ids, int max_weight_bits);
  /// On more than one memory node every worker has its weights near its core, also those of a mapped file.
  Status fill(ThreadPool& pool, const PackedCacheOptions& packed_cache, const PackProgress& progress,
              int memory_nodes = 1);

  /// In the order of add(); it has data once filled.
  const Packed* at(std::size_t index) const { return &packed_[index]; }
  /// Bytes of weights that no other program had packed before.
  std::int64_t bytes() const { return bytes_; }

 private:
  /// A weight to pack, and the listed rows if not all.
  struct Job {
    Weight weight;
    std::vector<std::int32_t> ids;
    std::int64_t offset = 0;
    std::size_t index = 0;  // in packed_
  };

  PackedCacheKey key(const PackedCacheOptions& packed_cache) const;
  Status map(ThreadPool& pool, const PackedCacheKey& key);
  Status pack(ThreadPool& pool, const PackProgress& progress);
  Status stream(ThreadPool& pool, const PackedCacheKey& key, const PackProgress& progress) const;
  void pack_job(ThreadPool& pool, const Job& job, std::byte* to, std::vector<PackScratch>& scratch) const;
  std::vector<PackScratch> scratch_of(const ThreadPool& pool) const;
  void copy_near(ThreadPool& pool);
  void place();

  std::shared_ptr<SharedWeights> shared_;
  std::vector<Job> jobs_;                                   // released once filled
  std::unordered_map<std::string, std::size_t> own_keys_;   // of jobs_: index in packed_
  std::vector<std::pair<std::size_t, std::size_t>> again_;  // in packed_: a weight, and the same one before
  std::vector<Packed> packed_;
  std::int64_t bytes_ = 0;
  std::shared_ptr<PackedMemory> own_ = std::make_shared<PackedMemory>();
  std::vector<std::shared_ptr<const PackedMemory>> borrowed_;  // of other programs
};

}  // namespace ft::cpu
