// The tensors and the config of Gemma 4 text models in published sizes, under the names of MLX conversions
// (models/gemma4 reads them). Sizes: config.json of the published checkpoints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "lab/synth_shapes.h"

namespace ft {

/// `shape` must have `gemma`.
std::vector<SynthTensor> gemma_tensors(const Shape& shape);
/// config.json without what all synthetic models say.
nlohmann::ordered_json gemma_config(const Shape& shape);

}  // namespace ft
