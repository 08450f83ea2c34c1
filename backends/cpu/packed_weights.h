// All packed weights of one program: planned one by one, then filled at once, by all workers, from the
// checkpoint; or mapped from a prepared file (prepared.h) if one is kept and still good, which every start
// checks from end to end. Where none is good the weights are packed and the file is written for the next
// start; a file that cannot be written is said in the log and is no failure. Owner: the executable. Thread:
// the engine thread; the pool's workers join it in fill(). Cost: packing reads and writes every weight,
// mapping reads the file. Errors: formats that no kernel has, no memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/memory.h"
#include "backends/cpu/pack.h"
#include "backends/cpu/prepared.h"
#include "backends/registry.h"
#include "base/thread_pool.h"

namespace ft::cpu {

class PackedWeights {
 public:
  /// `ids`: the wanted rows in order; empty for all. `most_bits`: plan_pack.
  Status add(const Weight& weight, const std::vector<std::int32_t>& ids, int most_bits);
  Status fill(ThreadPool& pool, const PreparedOptions& prepared, const PackProgress& progress);

  /// In the order of add(); with data once filled.
  const Packed* at(std::size_t index) const { return &packed_[index]; }
  std::int64_t bytes() const { return bytes_; }

 private:
  /// What is packed, and the listed rows if not all.
  struct Job {
    Weight weight;
    std::vector<std::int32_t> ids;
    std::int64_t offset = 0;
  };

  PreparedKey key(const PreparedOptions& prepared) const;
  Status map(ThreadPool& pool, const PreparedKey& key);
  Status pack(ThreadPool& pool, const PackProgress& progress);
  Status keep(ThreadPool& pool, const PreparedKey& key, const PackProgress& progress) const;
  void place(const std::byte* data);

  std::vector<Job> jobs_;  // let go when filled
  std::vector<Packed> packed_;
  std::int64_t bytes_ = 0;
  Memory memory_;
  PreparedFile file_;
};

}  // namespace ft::cpu
