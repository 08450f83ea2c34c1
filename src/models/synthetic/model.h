// Models by name instead of by folder: `synth:SHAPE?bits=4&group=64&seed=1` is a model of random weights in a
// published shape (shapes.h), made in memory. The same name gives the same model. Keys: bits (4, 8, 16:
// bf16, mxfp4, mxfp8, nvfp4), group (of 4 and 8: 32, 64, 128), seed, mtp (0, 1), tied (0, 1), layers,
// vocabulary.
#pragma once

#include <string>
#include <string_view>

#include "models/model.h"
#include "models/synthetic/tensors.h"

namespace ft {

bool is_synth_name(std::string_view name);
Result<SynthOptions> read_synth_name(std::string_view name);
Result<Model> make_synth_model(const std::string& name, const LoadOptions& options);

}  // namespace ft
