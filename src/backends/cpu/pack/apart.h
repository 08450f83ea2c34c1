// A block's rows with a byte for each code (RowSource::copy_apart), and how they are packed: codes are moved
// to their planes without being packed and unpacked as a stream of bits, and scales that are products stay
// factors and integers. Owner: one worker. Cost: at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/weight.h"

namespace ft::cpu {

struct Packed;

class ApartBlock {
 public:
  /// Whether this weight, packed so, is packed from such rows.
  static bool suits(const Weight& weight, const Packed& packed);
  /// Room for a block of `weight`. Allocates, so it comes before workers, which must not throw.
  void fit(const Weight& weight, const Packed& packed);
  /// Row `row` of `weight` becomes the output `lane`.
  void put(const Weight& weight, const Packed& packed, std::int64_t row, int lane);
  /// Packs the rows of the first `lanes` outputs; the others do not exist.
  void pack(const Packed& packed, int lanes, std::byte* block) const;

 private:
  std::vector<std::byte> rows_, zeros_;  // a row: codes, scales, biases, factors
};

}  // namespace ft::cpu
