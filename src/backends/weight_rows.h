// Reads rows of a stored weight as float32, whatever its format: the readable definition of a weight's
// values. ref uses it for everything, the other backends for packing. Cost: O(rows * cols), no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/weight.h"

namespace ft {

/// out [rows, weight.cols] = weight rows [first, first + rows) with the offset added.
void read_rows(const Weight& weight, std::int64_t first, std::int64_t rows, float* out);

}  // namespace ft
