// Paired experts: gpt-oss stores the experts of a layer as stacks in which rows of gate and up alternate:
// `experts.gate_up_proj_blocks`, `_scales` and `_bias` of MXFP4, or transposed floats. Here they become the
// tensors that MLX names: gate_proj, up_proj and down_proj, each [experts, rows, columns]. Every shape is
// checked before a byte is read. Cost: none; rows are selected when they are read.
#pragma once

#include <vector>

#include "convert/source.h"

namespace ft::convert {

/// Replaces the tensors of such stacks. kCorrupt for shapes that do not fit.
Status divide_paired_experts(const format::Checkpoint& checkpoint, std::vector<SourceTensor>& tensors);

}  // namespace ft::convert
