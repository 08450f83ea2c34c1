// Weights as the kernels read them (layout: kernels.h): 16 outputs side by side, codes and scales in as many
// bits as in the file. 4 bits in groups of 64 take 4.5 bits per weight, mxfp4 4.25, as in the file. Owner:
// the executable, which provides the memory. Thread: workers pack different blocks of one weight at the same
// time. Cost: one read and one write of the weight, and a few operations per 32 bits of codes. Errors:
// formats without a kernel, as a sentence that names the weight.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/pack/apart.h"
#include "backends/pinned_rows.h"
#include "base/result.h"
#include "program/weight.h"

namespace ft::cpu {

struct Packed {
  bool codes = false;            // multiplied as integers; otherwise plain or mxfp8
  int bits = 0;                  // of codes and mxfp8
  int group = 0, groups = 0;     // of codes and mxfp8
  Format format = Format::kF32;  // of plain values (or kMxfp8), or of codes' scales and biases
  int factor_groups = 0;         // that share factors of scales; 0: scales are stored (RowSource::factors)
  int zero = 0;                  // then: biases are -zero * scale; 0: they have factors too
  bool requantised = false;      // affine codes with fewer bits than the stored weight
  std::int64_t rows = 0, columns = 0;
  int blocks = 0;
  std::int64_t block_bytes = 0;
  const std::byte* data = nullptr;  // set once the memory exists

  std::int64_t bytes() const { return block_bytes * blocks; }
  /// True for plain bf16 values, which are packed in pairs of columns.
  bool pairs() const { return groups == 0 && format == Format::kBf16; }
  /// True if scales are bytes; there are no biases then.
  bool scale_bytes() const;
  /// The blocks of `worker`: a fixed range of consecutive ones.
  int first_block(int worker, int workers) const {
    return static_cast<int>(static_cast<std::int64_t>(blocks) * worker / workers);
  }
};

/// The shape of the packed `weight` with `rows` rows, which is ids.size() if only listed rows are packed.
/// `max_weight_bits` (Program::max_weight_bits) is 4 or 8: a weight with more bits is requantised to it if
/// its width allows. 0: never.
Result<Packed> plan_pack(const Weight& weight, std::int64_t rows, int max_weight_bits = 0);

/// One worker's memory for packing. It is made before the workers start, because they must not throw.
struct PackScratch {
  std::vector<std::byte> zeros;  // a stored row for an output that does not exist
  std::vector<float> values;     // of a row that is kept in float32 or requantised
  ApartBlock apart;              // a block's rows of a weight with a source that gives a byte for each code
  PinnedRows made;               // of one with another source
  // For a requantised block:
  std::vector<std::uint32_t> words;       // [kLanes, columns * bits / 32]
  std::vector<std::byte> scales, biases;  // [kLanes, groups] bf16

  void fit(const Packed& packed);
  /// The same for a weight that may have a source.
  void fit(const Weight& weight, const Packed& packed);
};

/// Fills blocks [first, last) at `data`. ids: the weight's rows in order; empty: all rows. Allocates nothing.
void pack_blocks(const Weight& weight, const std::vector<std::int32_t>& ids, const Packed& packed, int first,
                 int last, std::byte* data, PackScratch& scratch);

}  // namespace ft::cpu
