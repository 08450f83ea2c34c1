// The blocks of GGUF's quantised types taken apart: a byte for each code, and scales as the file holds them.
// Pure functions over checked bytes, in loops that a compiler vectorises. Source: the definitions of ggml
// (ggml-quants), checked against gguf-py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ft::format {

inline constexpr int kGgufGroup = 32;
inline constexpr int kSuperBlock = 256;
inline constexpr int kSuperBlockGroups = 16;  // at most
inline constexpr std::uint32_t kGgufMxfp4 = 39;

/// Of the groups of one block: scale = factor * scales[g]. A bias is -zero * scale or, if the type's zero is
/// 0, bias_factor * biases[g]. The factors are float16 and the products exact.
struct BlockScales {
  std::uint16_t factor = 0, bias_factor = 0;
  std::int8_t scales[kSuperBlockGroups] = {};
  std::int8_t biases[kSuperBlockGroups] = {};
};

struct BlockType {
  std::uint32_t id;
  std::string_view name;
  int elements, bytes;      // of a block
  int bits = 0, group = 0;  // of affine codes; 0: none
  int zero = 0;
  bool exact_half = false;  // scales and biases are float16
  /// Codes of `count` blocks.
  void (*codes)(const std::byte* blocks, std::int64_t count, std::uint8_t* out) = nullptr;
  void (*scales)(const std::byte* block, BlockScales& out) = nullptr;
};

/// Null: not read.
const BlockType* find_block_type(std::uint32_t id);

/// Codes of mxfp4 (e2m1) of `count` blocks of 17 bytes: the scale (e8m0), then 16 bytes of nibbles.
void mxfp4_codes(const std::byte* blocks, std::int64_t count, std::uint8_t* out);

}  // namespace ft::format
