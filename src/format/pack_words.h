// The codes of one group into the little-endian bit stream of an MLX matrix (format/affine.h), by doubling:
// neighbours become pairs, pairs become fours, and two fours are a store.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace ft::format {

inline constexpr int kLargestGroup = 128;

/// `count` codes below 2^bits, a multiple of 16 up to kLargestGroup that fills whole words. Returns the place
/// of the next word.
[[gnu::always_inline]] inline std::uint32_t* pack_words(const std::uint32_t* codes, int bits, int count,
                                                        std::uint32_t* words) {
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t pairs[kLargestGroup / 2], fours[kLargestGroup / 4];
  for (int i = 0; i < count / 2; ++i) pairs[i] = codes[2 * i] | codes[2 * i + 1] << bits;
  for (int i = 0; i < count / 4; ++i) fours[i] = pairs[2 * i] | pairs[2 * i + 1] << 2 * bits;
  // Eight codes take `bits` bytes; a store of eight bytes may run over, and the next one overwrites that.
  std::uint8_t bytes[kLargestGroup + sizeof(std::uint64_t)];
  for (int i = 0; i < count / 8; ++i) {
    const std::uint64_t eight = fours[2 * i] | static_cast<std::uint64_t>(fours[2 * i + 1]) << 4 * bits;
    std::memcpy(bytes + i * bits, &eight, sizeof eight);
  }
  const int whole = count * bits / 32;
  std::memcpy(words, bytes, static_cast<std::size_t>(whole) * sizeof *words);
  return words + whole;
}

}  // namespace ft::format
