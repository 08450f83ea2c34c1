// All packed weights of one program: planned one by one, then filled at once, by all workers, from the
// checkpoint; or mapped from a prepared file (prepared.h) if one is kept and still good, which every start
// checks from end to end. Where none is good the weights are packed and the file is written for the next
// start; a file that cannot be written is named in the log and is no failure. A weight that another program
// of the same backend has packed in the same way is not packed again: both use one copy, as the MTP head does
// with its target's LM head where it drafts among the whole vocabulary. Thread: the engine thread; the pool's
// workers join it in fill(). Cost: packing reads and writes every weight, mapping reads the file. Errors:
// formats that no kernel has, no memory.
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

/// Where the packed weights of one program are.
struct PackedMemory {
  Memory memory;
  PreparedFile file;
  const std::byte* data() const { return file.data() != nullptr ? file.data() : memory.data(); }
};

/// The packed weights of a backend's programs, while a program uses them.
class SharedWeights {
 public:
  struct Entry {
    std::string key;
    Packed packed;  // with data
    std::weak_ptr<const PackedMemory> memory;
  };
  /// Null: nobody has packed it.
  std::shared_ptr<const PackedMemory> find(const std::string& key, Packed& packed) const;
  void add(std::string key, const Packed& packed, const std::shared_ptr<const PackedMemory>& memory);

 private:
  std::vector<Entry> entries_;
};

class PackedWeights {
 public:
  /// `shared` must outlive it.
  explicit PackedWeights(SharedWeights& shared) : shared_(shared) {}
  /// `ids`: the wanted rows in order; empty for all. `most_bits`: plan_pack.
  Status add(const Weight& weight, const std::vector<std::int32_t>& ids, int most_bits);
  Status fill(ThreadPool& pool, const PreparedOptions& prepared, const PackProgress& progress);

  /// In the order of add(); with data once filled.
  const Packed* at(std::size_t index) const { return &packed_[index]; }
  /// Of those that no other program had packed before.
  std::int64_t bytes() const { return bytes_; }

 private:
  /// What is packed, and the listed rows if not all.
  struct Job {
    Weight weight;
    std::vector<std::int32_t> ids;
    std::int64_t offset = 0;
    std::size_t index = 0;  // in packed_
  };

  PreparedKey key(const PreparedOptions& prepared) const;
  Status map(ThreadPool& pool, const PreparedKey& key);
  Status pack(ThreadPool& pool, const PackProgress& progress);
  Status keep(ThreadPool& pool, const PreparedKey& key, const PackProgress& progress) const;
  void place();

  SharedWeights& shared_;
  std::vector<Job> jobs_;  // freed when filled
  std::vector<Packed> packed_;
  std::int64_t bytes_ = 0;
  std::shared_ptr<PackedMemory> own_ = std::make_shared<PackedMemory>();
  std::vector<std::shared_ptr<const PackedMemory>> borrowed_;  // of other programs
};

}  // namespace ft::cpu
