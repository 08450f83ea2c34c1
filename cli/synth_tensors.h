// The tensors and the config.json of a synthetic model, the same for a checkpoint on disk
// (synth_checkpoint.h) and one in memory (synth_model.h): affine codes, block floats or bf16 in the layout of
// MLX conversions. Thread: any, values. Cost: none. Errors: kInvalid for a group that does not divide a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/synth_random.h"
#include "cli/synth_shapes.h"
#include "format/quantisation.h"
#include "format/writer.h"

namespace ft::cli {

struct SynthOptions {
  Shape shape;
  int bits = 4;  // 4 or 8: affine; 16: bf16
  int group = 64;
  format::QuantMode mode = format::QuantMode::kAffine;  // another one: bits and group are its own
  std::uint64_t seed = 0;
  bool mtp = true;
  std::string directory;  // on disk only
};

/// "4", "8", "16" or the name of a block format. False: none of these.
bool set_width(std::string_view text, SynthOptions& options);
inline constexpr const char* kSynthWidths[] = {"4", "8", "16", "mxfp4", "mxfp8", "nvfp4"};

/// Stored as codes and scales, affine ones with biases.
bool quantised(const SynthTensor& tensor, int bits);
format::DType plain_dtype(const SynthTensor& tensor);
/// With ".weight" where it belongs.
std::string stored_name(const SynthTensor& tensor);
/// What is stored, in order: three for an affine tensor, two for one of block floats, else one.
std::vector<format::TensorSpec> specs_of(const SynthTensor& tensor, const SynthOptions& options);
std::int64_t bytes_of(const format::TensorSpec& spec);
/// The step between two codes that gives a quantised tensor its deviation.
float code_step(const SynthTensor& tensor, int bits);
/// The one scale of a tensor of block floats that gives it its deviation.
std::uint8_t scale_byte(const SynthTensor& tensor, format::QuantMode mode);
/// One element of a plain tensor.
float element(const SynthTensor& tensor, Random& random);
std::string config_json(const SynthOptions& options);
Status check_groups(const SynthOptions& options);

}  // namespace ft::cli
