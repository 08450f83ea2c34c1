// The places of codes and scales in a block of packed weights (layouts: kernels.h), for those who fill
// blocks. Pure functions in vectors of four outputs, which every machine has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/pack/pack.h"

namespace ft::cpu {

/// The stored bytes of a block's outputs, row by row; zeros for outputs that do not exist.
using Rows = std::array<const std::byte*, kLanes>;

/// The same word of four rows, which SSE2 and NEON hold in a register.
using Words = std::uint32_t __attribute__((vector_size(16)));
inline constexpr int kWordRows = 4;

inline std::uint32_t load_word(const std::byte* from) {
  std::uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

inline void store_word(std::byte* to, std::uint32_t word) { std::memcpy(to, &word, sizeof word); }

inline Words load_words(const std::byte* const* rows, std::int64_t at) {
  return Words{load_word(rows[0] + at), load_word(rows[1] + at), load_word(rows[2] + at),
               load_word(rows[3] + at)};
}

inline void store_words(std::byte* to, Words words) { std::memcpy(to, &words, sizeof words); }

/// Writes `kWidth` bits of 32 codes (of 16, if kHalf), from bit kFrom on, to a plane of one unit.
template <int kFrom, int kWidth, bool kHalf = false>
void place_plane(const Words (&quads)[8], std::byte* plane) {
  constexpr int kQuads = 8 / kWidth;  // groups of four columns in a vector
  constexpr std::uint32_t kMask = ((1U << kWidth) - 1) * 0x01010101U;
  for (int v = 0; v < (kHalf ? kWidth / 2 : kWidth); ++v) {
    Words words = quads[v * kQuads] >> kFrom & kMask;
    for (int s = 1; s < kQuads; ++s) words |= (quads[v * kQuads + s] >> kFrom & kMask) << (s * kWidth);
    store_words(plane + 64 * v, words);
  }
}

/// Offsets of a group's codes and scales in a block.
struct GroupPlace {
  std::int64_t codes, scales;
};

inline GroupPlace place_of(const Packed& packed, int g) {
  const std::int64_t codes = std::int64_t{packed.group} * kLanes * packed.bits / 8;
  if (packed.factor_groups > 0) {  // scales: of the integers
    const int in = g % packed.factor_groups, kinds = packed.zero != 0 ? 1 : 2;
    const std::int64_t header = factor_bytes(packed.factor_groups, packed.zero);
    const std::int64_t begin = g / packed.factor_groups * (header + packed.factor_groups * codes);
    return {begin + header + in * codes, begin + std::int64_t{2 * kinds + in} * kLanes};
  }
  if (!packed.scale_bytes()) {
    const std::int64_t begin = g * (codes + std::int64_t{2} * kLanes * element_bytes(packed.format));
    return {begin, begin + codes};
  }
  const std::int64_t scales = g / kScaleGroups * (kScaleGroups * (codes + kLanes));
  return {scales + kScaleGroups * kLanes + g % kScaleGroups * codes, scales + g % kScaleGroups * kLanes};
}

/// Writes the scales or biases of groups [first, last) of all outputs. `offset`: bytes from the scales.
template <int kBytes>
void place_scales(const Packed& packed, const Rows& rows, int first, int last, std::int64_t offset,
                  std::byte* block) {
  for (int g = first; g < last; ++g) {
    std::byte* to = block + place_of(packed, g).scales + offset;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::memcpy(to + lane * kBytes, rows[lane] + std::int64_t{g} * kBytes, kBytes);
    }
  }
}

}  // namespace ft::cpu
