// The kinds of weights, other than 4 bits in groups of 64 with bfloat16 scales, that have kernels for Hopper:
// X(bits, group, ScaleType). Host and kernels read these lists.
#pragma once

/// Streaming and prompt kernels.
#define FT_HOPPER_KINDS(X) \
  X(4, 32, 0) X(4, 32, 1) X(4, 32, 2) X(8, 32, 0) X(8, 32, 1) X(8, 32, 2) X(4, 64, 2) X(8, 64, 0) X(8, 64, 2)
/// Streaming kernels only.
#define FT_HOPPER_STREAMED_KINDS(X) X(4, 16, 1) X(8, 16, 1)
/// Streaming and prompt kernels with rows of halves.
#define FT_HOPPER_HALF_KINDS(X) X(4, 64, 0) FT_HOPPER_KINDS(X)
