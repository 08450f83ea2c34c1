// The weights of a program's instructions as the kernels read them. Matrices are packed into memory of the
// device, or mapped from the packed-weight cache (backends/packed_cache.h) without a copy: then each begins
// and ends at a page boundary, and all bytes are checked first. Weights that several instructions use are
// stored once. Small vectors and the heads of drafters, whose rows change, are always packed. Owner:
// compile(). Cost: packing reads and writes every weight, mapping reads the file. Errors: kExhausted,
// kUnsupported. A file that cannot be read or written is logged and is not an error.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "backends/metal/weights.h"
#include "backends/options.h"
#include "backends/packed_cache.h"
#include "program/instructions.h"

namespace ft::metal {

/// Packed weights of one instruction, in the order of its describe().
struct Parts {
  std::vector<std::shared_ptr<const PackedMatrix>> matrices;
  std::vector<Memory> vectors;
};

class Packing {
 public:
  Packing(std::shared_ptr<Device> device, ThreadPool& pool) : device_(std::move(device)), pool_(&pool) {}
  /// Maps the matrices of these instructions. If there is no good file, it is written first, one matrix after
  /// the other. parts() packs the matrices that are not mapped.
  Status map(const PackedCacheOptions& options, std::span<const Instruction> instructions);
  Result<Parts> parts(const Instruction& instruction);
  std::int64_t bytes() const { return bytes_; }

 private:
  /// Address or source and its row, shape, format, group and number: matrices of several shapes may begin at
  /// one address.
  using Key =
      std::tuple<const void*, std::int64_t, std::int64_t, std::int64_t, Format, int, int, std::size_t>;
  struct Job {
    std::vector<Weight> weights;
    PackedMatrix planned;
  };

  static Key key_of(std::span<const Weight> weights);
  Result<std::shared_ptr<const PackedMatrix>> matrix(std::span<const Weight> weights);
  Result<std::vector<Job>> plan(std::span<const Instruction> instructions) const;
  Result<std::shared_ptr<const PackedFile>> open(const PackedCacheKey& key) const;
  Status write(const PackedCacheKey& key, std::span<const Job> jobs) const;
  Status wrap(const std::shared_ptr<const PackedFile>& file, std::vector<Job> jobs);

  std::shared_ptr<Device> device_;
  ThreadPool* pool_;
  std::map<Key, std::shared_ptr<const PackedMatrix>> packed_;
  std::int64_t bytes_ = 0;
};

}  // namespace ft::metal
