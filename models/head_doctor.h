// Finds out at load what state the MTP head is in, because a missing, zeroed or wrongly converted head
// changes no answer and only makes it slow. Reads the head's norms, and its matrices until the first byte
// that is not zero. Source of the repairs: the norm conventions of published sidecar files (mean of
// input_layernorm near 0: raw).
#pragma once

#include "models/weight_source.h"

namespace ft {

HeadReport examine_head(const Model& model, WeightSource& source);

/// What an error about the head's tensors makes of it: kNoMemory, or kWrongShape.
HeadReport::State state_after(const Error& error);

}  // namespace ft
