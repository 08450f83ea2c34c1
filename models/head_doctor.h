// Finds out at load what state the MTP head is in. A missing, zeroed or wrongly converted one changes no
// answer and only makes decoding slow, so it would pass unnoticed. It reads the norms, and the matrices up to
// the first byte that is not zero. Source of the repairs: the norm conventions of published sidecar files
// (mean of input_layernorm near 0: raw).
#pragma once

#include "models/weight_source.h"

namespace ft {

HeadReport examine_head(const Model& model, WeightSource& source);

/// The report state for an error about the MTP head's tensors: kNoMemory or kWrongShape.
HeadReport::State state_after(const Error& error);

}  // namespace ft
