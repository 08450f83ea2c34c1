// The kernels that multiply packed weights with rows of halves, for the table of linear_kernels.h: their
// names and limits, and the launches of the prompts' kernel (kernels/sm90_half.cu). Owner: none. Thread: the
// engine thread.
#pragma once

#include "backends/cuda/linear_kernels.h"

namespace ft::cuda {

/// Whether weights of this kind stream (kernels/hopper_half.cu); for up to `rows` rows: 2, 4, 8 or 16.
bool streams_halves(const WeightKind& kind, const Device& device);
const char* stream_half_name(const WeightKind& kind, int rows);
/// `columns`: of eight rows, of a block: 1 or 4.
const char* linear_half_name(const WeightKind& kind, int columns);

bool supports_async_half(const LinearCall& call, Device& device);
LinearNeeds async_half_needs(const LinearCall& call, Device& device);
void launch_async_half(const LinearCall& call, Device& device);
/// LinearNeeds::workspace_bytes of products of up to `rows` rows.
std::int64_t half_workspace(const WeightKind& kind, std::int64_t cols, std::int64_t rows,
                            const Device& device);

}  // namespace ft::cuda
