#include "format/gguf/block_codes.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "format/half.h"

namespace ft::format {
namespace {

using Bytes = const std::uint8_t*;

std::uint32_t word_at(Bytes from) {
  std::uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// Element j is the low nibble of byte j, element j + 16 the high one.
void nibbles(Bytes bytes, std::uint8_t* codes) {
  std::uint8_t both[kGgufGroup / 2];
  std::memcpy(both, bytes, sizeof both);
  for (int j = 0; j < kGgufGroup / 2; ++j) codes[j] = both[j] & 15U;
  for (int j = 0; j < kGgufGroup / 2; ++j) codes[j + kGgufGroup / 2] = both[j] >> 4;
}

/// Bit j of four bytes is the fifth bit of code j.
void fifth_bits(Bytes bytes, std::uint8_t* codes) {
  constexpr std::uint64_t kEach = 0x0101010101010101, kOwn = 0x8040201008040201, kBelow = 0x7F * kEach;
  for (int eight = 0; eight < kGgufGroup / 8; ++eight, codes += 8) {
    const std::uint64_t own = bytes[eight] * kEach & kOwn;  // bit j of byte j, if it is set
    std::uint64_t eight_codes = 0;
    std::memcpy(&eight_codes, codes, sizeof eight_codes);
    eight_codes |= ((own + kBelow) >> 7 & kEach) << 4;
    std::memcpy(codes, &eight_codes, sizeof eight_codes);
  }
}

void codes_4_0(Bytes block, std::uint8_t* codes) { nibbles(block + 2, codes); }
void codes_4_1(Bytes block, std::uint8_t* codes) { nibbles(block + 4, codes); }

void codes_5_0(Bytes block, std::uint8_t* codes) {
  nibbles(block + 6, codes);
  fifth_bits(block + 2, codes);
}

void codes_5_1(Bytes block, std::uint8_t* codes) {
  nibbles(block + 8, codes);
  fifth_bits(block + 4, codes);
}

void codes_8_0(Bytes block, std::uint8_t* codes) {
  for (int j = 0; j < kGgufGroup; ++j) codes[j] = block[2 + j] ^ 128U;
}

constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

/// The codes in the file are places in a table of bytes; the table's values are codes of 8 bits.
void codes_iq4_nl(Bytes block, std::uint8_t* codes) {
  nibbles(block + 2, codes);
  for (int j = 0; j < kGgufGroup; ++j) codes[j] = static_cast<std::uint8_t>(kIq4Values[codes[j]] + 128);
}

/// Nibbles of 32 bytes are 64 elements, the low ones first.
void codes_4_k(Bytes block, std::uint8_t* codes) {
  for (Bytes bytes = block + 16; bytes < block + 144; bytes += 32, codes += 64) {
    for (int j = 0; j < 32; ++j) codes[j] = bytes[j] & 15U;
    for (int j = 0; j < 32; ++j) codes[32 + j] = bytes[j] >> 4;
  }
}

/// act(0), act(1), ..: the numbers are constants, because shifts by constants become shifts of vectors.
template <int kCount, class Act>
void steps(Act act) {
  [&]<int... kSteps>(std::integer_sequence<int, kSteps...>) {
    (act(std::integral_constant<int, kSteps>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

void codes_5_k(Bytes block, std::uint8_t* codes) {
  const Bytes high = block + 16;
  steps<8>([&](auto group) {
    const Bytes low = block + 48 + group / 2 * 32;
    for (int j = 0; j < 32; ++j) {
      codes[group * 32 + j] =
          static_cast<std::uint8_t>((low[j] >> group % 2 * 4 & 15U) | (high[j] >> group & 1U) << 4);
    }
  });
}

void codes_6_k(Bytes block, std::uint8_t* codes) {
  steps<8>([&](auto eighth) {
    constexpr int kQuarter = eighth % 4;
    const Bytes low = block + eighth / 4 * 64 + kQuarter % 2 * 32, high = block + 128 + eighth / 4 * 32;
    for (int j = 0; j < 32; ++j) {
      codes[eighth * 32 + j] =
          static_cast<std::uint8_t>((low[j] >> kQuarter / 2 * 4 & 15U) | (high[j] >> 2 * kQuarter & 3U) << 4);
    }
  });
}

/// Codes of 3 bits, stored in 4.
void codes_3_k(Bytes block, std::uint8_t* codes) {
  steps<8>([&](auto eighth) {
    const Bytes low = block + 32 + eighth / 4 * 32;
    for (int j = 0; j < 32; ++j) {
      codes[eighth * 32 + j] =
          static_cast<std::uint8_t>((low[j] >> eighth % 4 * 2 & 3U) | (block[j] >> eighth & 1U) << 2);
    }
  });
}

/// Codes of 2 bits, stored in 4.
void codes_2_k(Bytes block, std::uint8_t* codes) {
  steps<8>([&](auto eighth) {
    const Bytes low = block + 16 + eighth / 4 * 32;
    for (int j = 0; j < 32; ++j) codes[eighth * 32 + j] = low[j] >> eighth % 4 * 2 & 3U;
  });
}

template <auto kCodes, int kBytes, int kElements>
void codes_of(const std::byte* blocks, std::int64_t count, std::uint8_t* out) {
  auto block = reinterpret_cast<Bytes>(blocks);
  for (std::int64_t i = 0; i < count; ++i, block += kBytes, out += kElements) kCodes(block, out);
}

std::uint16_t half_of(const std::byte* from) {
  std::uint16_t half = 0;
  std::memcpy(&half, from, sizeof half);
  return half;
}
std::uint16_t negative(std::uint16_t half) { return static_cast<std::uint16_t>(half ^ 0x8000U); }

void scale_alone(const std::byte* block, BlockScales& out) {
  out.factor = half_of(block);
  out.scales[0] = 1;
}

void scale_and_bias(const std::byte* block, BlockScales& out) {
  scale_alone(block, out);
  out.bias_factor = half_of(block + 2);
  out.biases[0] = 1;
}

/// The scales and minima of 6 bits of eight groups, in 12 bytes: of groups 0 to 3 the lower bits of a byte
/// each, of groups 4 to 7 a nibble and two of the upper bits.
void scales_4_k(const std::byte* block, BlockScales& out) {
  out.factor = half_of(block), out.bias_factor = negative(half_of(block + 2));
  const auto packed = reinterpret_cast<Bytes>(block) + 4;
  const std::uint32_t scales = word_at(packed), lows = word_at(packed + 4), both = word_at(packed + 8);
  constexpr std::uint32_t kSix = 0x3F3F3F3F, kFour = 0x0F0F0F0F, kTop = 0x30303030;
  const std::uint32_t of_scales[2] = {scales & kSix, (both & kFour) | (scales >> 2 & kTop)};
  const std::uint32_t of_biases[2] = {lows & kSix, (both >> 4 & kFour) | (lows >> 2 & kTop)};
  std::memcpy(out.scales, of_scales, sizeof of_scales);
  std::memcpy(out.biases, of_biases, sizeof of_biases);
}

void scales_6_k(const std::byte* block, BlockScales& out) {
  out.factor = half_of(block + 208);
  std::memcpy(out.scales, block + 192, sizeof out.scales);
}

void scales_3_k(const std::byte* block, BlockScales& out) {
  out.factor = half_of(block + 108);
  const auto packed = reinterpret_cast<Bytes>(block) + 96;
  for (int g = 0; g < 16; ++g) {
    const unsigned low = packed[g % 8] >> (g / 8 * 4) & 15U, high = packed[8 + g % 4] >> (g / 4 * 2) & 3U;
    out.scales[g] = static_cast<std::int8_t>(static_cast<int>(low | high << 4) - 32);
  }
}

void scales_2_k(const std::byte* block, BlockScales& out) {
  out.factor = half_of(block + 80), out.bias_factor = negative(half_of(block + 82));
  const auto packed = reinterpret_cast<Bytes>(block);
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = static_cast<std::int8_t>(packed[g] & 15U);
    out.biases[g] = static_cast<std::int8_t>(packed[g] >> 4);
  }
}

constexpr std::array<BlockType, 15> kTypes = {{
    {0, "F32", 1, 4},
    {1, "F16", 1, 2},
    {30, "BF16", 1, 2},
    {2, "Q4_0", 32, 18, 4, 32, 8, true, codes_of<codes_4_0, 18, 32>, scale_alone},
    {3, "Q4_1", 32, 20, 4, 32, 0, true, codes_of<codes_4_1, 20, 32>, scale_and_bias},
    {6, "Q5_0", 32, 22, 5, 32, 16, true, codes_of<codes_5_0, 22, 32>, scale_alone},
    {7, "Q5_1", 32, 24, 5, 32, 0, true, codes_of<codes_5_1, 24, 32>, scale_and_bias},
    {8, "Q8_0", 32, 34, 8, 32, 128, true, codes_of<codes_8_0, 34, 32>, scale_alone},
    {20, "IQ4_NL", 32, 18, 8, 32, 128, true, codes_of<codes_iq4_nl, 18, 32>, scale_alone},
    {12, "Q4_K", 256, 144, 4, 32, 0, false, codes_of<codes_4_k, 144, 256>, scales_4_k},
    {13, "Q5_K", 256, 176, 5, 32, 0, false, codes_of<codes_5_k, 176, 256>, scales_4_k},
    {10, "Q2_K", 256, 84, 4, 16, 0, false, codes_of<codes_2_k, 84, 256>, scales_2_k},
    {11, "Q3_K", 256, 110, 4, 16, 4, false, codes_of<codes_3_k, 110, 256>, scales_3_k},
    {14, "Q6_K", 256, 210, 6, 16, 32, false, codes_of<codes_6_k, 210, 256>, scales_6_k},
    {kGgufMxfp4, "MXFP4", 32, 17},
}};

}  // namespace

const BlockType* find_block_type(std::uint32_t id) {
  for (const BlockType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

void mxfp4_codes(const std::byte* blocks, std::int64_t count, std::uint8_t* out) {
  auto block = reinterpret_cast<Bytes>(blocks);
  for (std::int64_t i = 0; i < count; ++i, block += 17, out += kGgufGroup) nibbles(block + 1, out);
}

}  // namespace ft::format
