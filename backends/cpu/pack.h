// Weights as the kernels read them (layout: kernels.h): 16 outputs side by side, codes and scales in as many
// bits as in the file. 4 bits in groups of 64 take 4.5 bits a weight, mxfp4 4.25, as in the file. Owner: the
// executable, which gives the memory. Thread: workers pack different blocks of one weight at a time. Cost:
// one read of the weight, one write, a few operations for 32 bits of codes. Errors: formats that no kernel
// has, as a sentence naming the weight.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels.h"
#include "base/result.h"
#include "program/weight.h"

namespace ft::cpu {

struct Packed {
  bool codes = false;            // multiplied as integers; else plain or mxfp8
  int bits = 0;                  // of codes and mxfp8
  int group = 0, groups = 0;     // of codes and mxfp8
  Format format = Format::kF32;  // of plain values (or kMxfp8), or of codes' scales and biases
  bool requantised = false;      // affine codes of fewer bits than the weight is stored in
  std::int64_t rows = 0, columns = 0;
  int blocks = 0;
  std::int64_t block_bytes = 0;
  const std::byte* data = nullptr;  // set when the memory is there

  std::int64_t bytes() const { return block_bytes * blocks; }
  /// Plain bf16 values, in pairs of columns.
  bool pairs() const { return groups == 0 && format == Format::kBf16; }
  /// Scales are bytes, and there are no biases.
  bool scale_bytes() const;
  /// Blocks of `worker`: a fixed share of consecutive ones.
  int first_block(int worker, int workers) const {
    return static_cast<int>(static_cast<std::int64_t>(blocks) * worker / workers);
  }
};

/// The shape that `weight` takes; `rows` of it, which is ids.size() if only listed rows are wanted. Stored in
/// more than `most_bits`, 4 or 8, it is requantised to them where its width allows (Program::most_bits); 0:
/// never.
Result<Packed> plan_pack(const Weight& weight, std::int64_t rows, int most_bits = 0);

/// What one worker needs while it packs, made before the workers start: they must not throw.
struct PackScratch {
  std::vector<std::byte> zeros;  // a stored row of an output that is not there
  std::vector<float> values;     // of a row that is kept in float32 or requantised
  // Of a block that is requantised:
  std::vector<std::uint32_t> words;       // [kLanes, columns * bits / 32]
  std::vector<std::byte> scales, biases;  // [kLanes, groups] bf16

  void fit(const Packed& packed);
};

/// Fills blocks [first, last) at `data`. ids: the weight's rows in order, empty for all. Allocates nothing.
void pack_blocks(const Weight& weight, const std::vector<std::int32_t>& ids, const Packed& packed, int first,
                 int last, std::byte* data, PackScratch& scratch);

}  // namespace ft::cpu
