// Limits of the numbers in a config.json: several times the largest published model, and small enough that
// products of three stay below 2^63.
#pragma once

#include <cstdint>

namespace ft::blocks {

inline constexpr int kMaxWidth = 1 << 20;
inline constexpr int kMaxLayers = 1024;
inline constexpr int kMaxHeads = 4096;
inline constexpr int kMaxHeadDim = 4096;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 40;

}  // namespace ft::blocks
