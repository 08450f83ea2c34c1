// The tensors and the config.json of a synthetic model, the same for a checkpoint on disk
// (synth_checkpoint.h) and one in memory (synth_model.h): affine codes or bf16 in the layout of MLX
// conversions. Thread: any, values. Cost: none. Errors: kInvalid for a group that does not divide a row.
#pragma once

#include <string>
#include <vector>

#include "cli/synth_random.h"
#include "cli/synth_shapes.h"
#include "format/writer.h"

namespace ft::cli {

struct SynthOptions {
  Shape shape;
  int bits = 4;  // 4 or 8: affine; 16: bf16
  int group = 64;
  std::uint64_t seed = 0;
  bool mtp = true;
  std::string directory;  // on disk only
};

/// Stored as codes, scales and biases.
bool quantised(const SynthTensor& tensor, int bits);
format::DType plain_dtype(const SynthTensor& tensor);
/// With ".weight" where it belongs.
std::string stored_name(const SynthTensor& tensor);
/// What is stored, in order: three for a quantised tensor, else one.
std::vector<format::TensorSpec> specs_of(const SynthTensor& tensor, int bits, int group);
std::int64_t bytes_of(const format::TensorSpec& spec);
/// The step between two codes that gives a quantised tensor its deviation.
float code_step(const SynthTensor& tensor, int bits);
/// One element of a plain tensor.
float element(const SynthTensor& tensor, Random& random);
std::string config_json(const SynthOptions& options);
Status check_groups(const SynthOptions& options);

}  // namespace ft::cli
