// Shared by the kernels of attention: places in the cache, splits, the positions that a row sees.
#pragma once

#include "backends/cuda/kernels/device.cuh"
#include "backends/cuda/kernels/shared_layouts.cuh"

namespace ft::cuda {

/// Splits of 128 positions to 4,096, 512 to 16,384, 1,024 to 65,536, then 2,048.
FT_DEVICE int first_of_split(int split) {
  if (split <= 32) return split * 128;
  if (split <= 56) return 4096 + (split - 32) * 512;
  if (split <= 104) return 16384 + (split - 56) * 1024;
  return 65536 + (split - 104) * 2048;
}

FT_DEVICE u8* head_of(const AttendArgs& p, int block, int kv_head) {
  return p.cache + block * p.block_bytes + p.layer_offset + kv_head * p.head_bytes;
}

/// The positions that a row of the segment sees.
struct Seen {
  int first, end;
};
FT_DEVICE Seen seen_by(const AttendArgs& p, const SegmentPlace& s, int row) {
  const int own = s.position + row + 1;
  return {p.sliding_window > 0 ? max_(0, own - p.sliding_window) : 0, p.causal ? own : s.position + s.rows};
}

}  // namespace ft::cuda
