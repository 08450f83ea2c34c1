// Random weights in memory, fast and small. All weights of a model are windows on a few blocks of random
// numbers, so a model needs one block as large as its largest matrix. Speed does not depend on the codes. The
// content of a window is a function of (seed, name, size) if the largest window is requested first. The pool
// owns the bytes; windows live as long as it does. A new gigabyte takes about a second.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "models/synthetic/random.h"

namespace ft {

class SynthPool {
 public:
  explicit SynthPool(std::uint64_t seed) : seed_(seed) {}

  /// Uniform bits.
  const std::byte* codes(std::size_t bytes, std::string_view name);
  struct Halves {
    const std::byte *scales, *biases;  // bf16, [count]
  };
  /// Scales of about `step`, with biases that centre codes of 0..levels.
  Halves scales(float step, float levels, std::size_t count);
  /// bf16 values of mean 0, nearly normal.
  const std::byte* values(float deviation, std::size_t count, std::string_view name);
  /// Uninitialised memory.
  std::byte* bytes(std::size_t count);

 private:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  /// A block of at least `bytes`, made by `fill` unless one exists.
  template <class Fill>
  const std::byte* at_least(Block& block, std::size_t bytes, Fill fill);
  std::size_t place(std::string_view name) const;

  std::uint64_t seed_;
  std::vector<std::unique_ptr<std::uint64_t[]>> memory_;
  Block codes_;
  std::map<float, Block> scales_, biases_, values_;  // by step or deviation
};

}  // namespace ft
