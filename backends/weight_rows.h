// Reads rows of a stored weight as float32, whatever its format: the readable definition of what a weight
// means. Used by ref for everything and by the other backends when they pack. Cost: O(rows * cols), no
// allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/weight.h"

namespace ft {

/// out [rows, weight.cols] = weight rows [first, first + rows) with the offset added.
void read_rows(const Weight& weight, std::int64_t first, std::int64_t rows, float* out);

/// `count` codes of `bits` bits each, least significant bits first; `from` is the first code's byte.
void unpack_codes(const std::byte* from, int bits, std::int64_t count, std::uint8_t* out);
/// The unsigned codes of one affine row: out [cols].
void read_codes(const Weight& weight, std::int64_t row, std::uint8_t* out);
/// The scales and biases of one affine row as float32: [cols / group] each.
void read_scales(const Weight& weight, std::int64_t row, float* scales, float* biases);

}  // namespace ft
