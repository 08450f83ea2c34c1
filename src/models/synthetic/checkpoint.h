// Writes a checkpoint of random weights: config.json, generation_config.json, model.safetensors and
// mtp.safetensors, in the layout of MLX conversions (affine codes, block floats or bf16). Numbers are a
// function of (seed, tensor name, shape, bits) alone. Memory stays at a few megabytes. Files appear whole or
// not at all.
#pragma once

#include <functional>
#include <string>

#include "models/synthetic/tensors.h"

namespace ft {

struct SynthResult {
  std::int64_t parameters = 0, bytes = 0;
};

/// Calls `progress(bytes written, all bytes)`; false stops with kCancelled.
Result<SynthResult> write_checkpoint(const SynthOptions& options,
                                     const std::function<bool(std::int64_t, std::int64_t)>& progress);

}  // namespace ft
