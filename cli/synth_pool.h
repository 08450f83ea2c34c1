// Random weights in memory, fast and small: all weights of a model are windows on a few blocks of random
// numbers, so a model of any size costs one block as large as its largest matrix. Speed does not depend on
// what the codes are. What a window holds is a function of (seed, name, size) if the largest is asked for
// first. Owner: the pool owns the bytes, windows live as long as it does. Thread: one. Cost: about a second
// for a gigabyte that was not made before. Errors: std::bad_alloc.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "cli/synth_random.h"

namespace ft::cli {

class SynthPool {
 public:
  explicit SynthPool(std::uint64_t seed) : seed_(seed) {}

  /// Uniform bits.
  const std::byte* codes(std::size_t bytes, std::string_view name);
  struct Halves {
    const std::byte *scales, *biases;  // bf16, [count]
  };
  /// Scales of about `step`, and biases so that codes of 0..levels are centred.
  Halves scales(float step, float levels, std::size_t count);
  /// bf16 of mean 0, near normal.
  const std::byte* values(float deviation, std::size_t count, std::string_view name);
  /// Memory to write anything into.
  std::byte* bytes(std::size_t count);

 private:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  /// A block of at least `bytes`, made by `fill` if there is none so large.
  template <class Fill>
  const std::byte* at_least(Block& block, std::size_t bytes, Fill fill);
  std::size_t place(std::string_view name) const;

  std::uint64_t seed_;
  std::vector<std::unique_ptr<std::uint64_t[]>> memory_;
  Block codes_;
  std::map<float, Block> scales_, biases_, values_;  // by step or deviation
};

}  // namespace ft::cli
