// Weights as the kernels read them (backends/metal/kernels/linear.h): tiles of 32 outputs, every stored
// format as it is. A packed matrix is made once per distinct weight: an embedding and an LM head may share
// one. All workers of the caller's pool pack; the bytes do not depend on their number. Owner: an executable.
// Errors: kExhausted.
#pragma once

#include <string>
#include <vector>

#include "backends/metal/device.h"
#include "backends/pinned_rows.h"
#include "base/thread_pool.h"
#include "program/weight.h"

namespace ft::metal {

/// Kernels that read a format, by number.
struct MatrixKernels {
  int few1 = -1, few2 = -1, few4 = -1, few8 = -1, many = -1, routed = -1, embed = -1;
};

struct PackedMatrix {
  Memory codes, scales;
  MatrixKernels kernels;
  std::int64_t rows = 0, cols = 0;
  unsigned bits = 0, group = 32, scale_kind = 0;
  bool affine = false;

  // Words of one of several matrices that lie one after another.
  std::size_t count = 1, codes_each = 0, scales_each = 0;
  std::size_t codes_bytes() const { return codes_each * count * 4; }
  std::size_t scales_bytes() const { return scales_each == 0 ? 4 : scales_each * count * 4; }
  std::size_t bytes() const { return codes_bytes() + scales_bytes(); }
};

/// The result of pack() for `count` weights like this one with `rows` outputs each, without its memory.
Result<PackedMatrix> plan_matrix(const Device& device, const Weight& weight, std::int64_t rows,
                                 std::size_t count);

/// Matrices stored alike, one after another; usually one.
Result<PackedMatrix> pack(const std::shared_ptr<Device>& device, ThreadPool& pool,
                          std::span<const Weight> weights);
/// Rows `ids` of a matrix, then `extra` empty rows.
Result<PackedMatrix> pack_rows(const std::shared_ptr<Device>& device, ThreadPool& pool, const Weight& weight,
                               std::span<const std::int32_t> ids, std::int64_t extra);
/// Packs row `from` of the weight as output `to`. `pinned` has room for one row.
void pack_row(const Weight& weight, std::int64_t from, PackedMatrix& packed, std::int64_t to,
              PinnedRows& pinned);
/// As float32 with the offset added; an absent weight is one zero.
Result<Memory> pack_vector(const std::shared_ptr<Device>& device, const Weight& weight);

}  // namespace ft::metal
