// Weights as kernels read them, in the GPU's memory. Affine matrices become tiles of records
// (kernels/layout.cuh): 2- and 3-bit codes take 4 bits, 5- and 6-bit codes 8; float16 scales of groups of 32
// and 64 stay as they are, and other scales that bfloat16 cannot hold become floats. mxfp4 becomes records of
// the file's codes and scales. Other formats become rows of bfloat16 if that is exact, else of float32. A
// matrix that several programs read is stored once.
// Owner: executables share them. Thread: the engine thread. Cost: one pass over the mapped bytes,
// copied as they are and packed by a kernel. Errors: no memory; formats and groups without a kernel.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/activation_format.h"
#include "backends/cuda/arguments.h"
#include "backends/cuda/device.h"
#include "format/affine.h"
#include "program/weight.h"

namespace ft::cuda {

/// Decides which kernel reads a matrix. bits 0: plain rows.
struct WeightKind {
  int bits = 0, group = 0;
  ScaleType scale_type = kBf16Scales;
  bool wide = false;          // plain rows of floats
  bool small_floats = false;  // e2m1 codes and e8m0 scales, without biases
  bool operator==(const WeightKind&) const = default;
  /// The format of rows for products with such weights.
  ActivationFormat activations(Arithmetic arithmetic) const {
    if (bits == 0) return {};
    if (arithmetic == Arithmetic::kCodes) return codes_in_groups(group);
    const bool split = bits == 4 && group >= 32 && !small_floats;  // codes in the high bits of bytes
    return {split ? ActivationFormat::Kind::kSplitHalves : ActivationFormat::Kind::kHalves, group};
  }
};

Result<WeightKind> kind_of(const Weight& weight);

/// The format, bits and group of a matrix under Program::max_weight_bits; the weight itself if it is not
/// reduced.
Weight requantised_as(const Weight& weight, int max_weight_bits);

/// Matrices of one kind and width, one below the other, each padded to whole tiles.
struct PackedMatrix {
  WeightKind kind;
  std::int64_t cols = 0, outputs = 0;  // outputs with padding
  std::int64_t padded = 0;             // plain: floats of a row
  Memory memory;

  int groups() const { return static_cast<int>(cols / kind.group); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory.bytes()); }
};

class WeightStore {
 public:
  explicit WeightStore(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// All rows of the weights, which are of one kind and width.
  Result<std::shared_ptr<const PackedMatrix>> matrix(const std::vector<const Weight*>& weights);
  /// The weight, or its codes in `max_weight_bits`, which the store keeps as long as it lives.
  Weight reduced(const Weight& weight, int max_weight_bits);
  /// Room for `rows` rows of the weight, to be filled by pack_rows.
  Result<std::shared_ptr<PackedMatrix>> room(const Weight& weight, std::int64_t rows);
  /// Rows `ids` of the weight into the matrix from row `first`, a multiple of 16.
  void pack_rows(const Weight& weight, std::span<const std::int32_t> ids, std::int64_t first,
                 PackedMatrix& to);
  /// A vector or small matrix as float32 [rows, cols].
  Result<Memory> floats(const Weight& weight);
  Result<Memory> upload(const void* from, std::size_t bytes);

 private:
  void pack(const Weight& weight, std::int64_t first, PackedMatrix& to);
  void pack_piece(const Weight& weight, const std::byte* codes, const std::byte* scales,
                  const std::byte* biases, std::int64_t rows, std::int64_t first, PackedMatrix& to);
  void pack_plain(const Weight& weight, std::span<const std::int32_t> ids, std::int64_t from,
                  std::int64_t rows, std::int64_t first, PackedMatrix& to);

  std::shared_ptr<Device> device_;
  std::map<std::string, std::weak_ptr<const PackedMatrix>> known_;
  std::map<std::string, format::AffineMatrix> reduced_;  // by the stored weight's identity
  Memory raw_;                                           // a piece as stored
};

}  // namespace ft::cuda
