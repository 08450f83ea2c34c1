// Writes a checkpoint of random weights: config.json, generation_config.json, model.safetensors,
// mtp.safetensors, in the layout of MLX conversions (affine codes, block floats or bf16). A tensor's numbers
// are a function of (seed, its name, its shape, bits) alone. Owner: synth.cpp. Thread: one. Cost: one pass of
// the disk; memory stays at a few megabytes. Errors: kInvalid for a group that does not divide a row,
// kExhausted for a full disk, kIo; files appear whole or not.
#pragma once

#include <functional>
#include <string>

#include "cli/synth_tensors.h"

namespace ft::cli {

struct SynthResult {
  std::int64_t parameters = 0, bytes = 0;
};

/// `progress(bytes written, all bytes)`; false stops with kCancelled.
Result<SynthResult> write_checkpoint(const SynthOptions& options,
                                     const std::function<bool(std::int64_t, std::int64_t)>& progress);

}  // namespace ft::cli
