// The kernels that multiply weights and rows, in a table: their limits, needs and launches. A product takes
// the first kernel that supports it; the last kernels support everything. All kernels of one activation
// format have the same bits, so the choice affects only speed. Owner: none. Thread: the engine thread.
#pragma once

#include <span>

#include "backends/cuda/activation_format.h"
#include "backends/cuda/kernels/shared_layouts.cuh"
#include "backends/cuda/weights.h"

namespace ft::cuda {

inline constexpr WeightKind kStreamedKind{4, kStreamedGroup};  // of the linears made for Hopper

/// One product of a step.
struct LinearCall {
  WeightKind kind;
  Arithmetic arithmetic = Arithmetic::kCodes;
  LinearArgs args{};                   // of packed weights
  PlainLinearArgs plain{};             // of plain ones
  FusedProducer producer{};            // of rows that the kernel makes itself; kFromCodes: they are there
  unsigned char* workspace = nullptr;  // LinearNeeds::workspace_bytes

  bool packed() const { return kind.bits != 0; }
  int rows() const { return packed() ? args.rows : plain.rows; }
  int k() const { return packed() ? args.groups * kind.group : plain.k; }
  ActivationFormat rows_format() const { return kind.activations(arithmetic); }
  /// Packed weights and codes, or halves, of rows.
  bool of_codes() const { return packed() && arithmetic == Arithmetic::kCodes; }
  bool of_halves() const { return packed() && arithmetic == Arithmetic::kHalves; }
};

struct LinearNeeds {
  ActivationFormat rows;  // that it reads
  int shared_bytes = 0;   // dynamic, of a block
  std::int64_t workspace_bytes = 0;
};

struct LinearKernel {
  const char* name;  // of the kernels' family
  int own_rows;      // of up to this many rows it makes the codes itself, without a launch
  bool (*supports)(const LinearCall& call, Device& device);
  LinearNeeds (*needs)(const LinearCall& call, Device& device);  // of a call that it supports
  void (*launch)(const LinearCall& call, Device& device);        // the same
};

std::span<const LinearKernel> linear_kernels();

/// The first kernel of the table that supports the call.
const LinearKernel& choose_linear(const LinearCall& call, Device& device);

/// Whether weights of this kind have kernels that make the codes of their rows themselves.
bool makes_codes(const WeightKind& kind, Arithmetic arithmetic, const Device& device);
/// Whether the product of `rows` rows of `k` numbers makes their codes itself, without another launch.
bool makes_codes(const FusedProducer& producer, int rows, int k);

/// The largest LinearNeeds::workspace_bytes of products of up to `rows` rows.
std::int64_t linear_workspace(const WeightKind& kind, Arithmetic arithmetic, std::int64_t cols,
                              std::int64_t rows, const Device& device);

}  // namespace ft::cuda
