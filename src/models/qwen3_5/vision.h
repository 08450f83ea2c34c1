// The vision tower of the family: from its config and tensors to the two programs of a VisionModel.
#pragma once

#include "models/model.h"
#include "models/qwen3_5/config.h"
#include "models/weight_source.h"

namespace ft::qwen3_5 {

/// Sets model.vision, or model.vision_problem if the config or the checkpoint has no tower. Errors: a tower
/// with wrong tensors.
Status build_vision(Model& model, const Config& config, WeightSource& source);

}  // namespace ft::qwen3_5
