// The tensors and the config.json of a synthetic model, shared by checkpoints on disk (checkpoint.h)
// and models in memory (model.h): affine codes, block floats or bf16 in the layout of MLX conversions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/quantisation.h"
#include "format/writer.h"
#include "models/synthetic/random.h"
#include "models/synthetic/shapes.h"

namespace ft {

struct SynthOptions {
  Shape shape;
  int bits = 4;  // 4 or 8: affine; 16: bf16
  int group = 64;
  format::QuantMode mode = format::QuantMode::kAffine;  // other modes fix bits and group
  std::uint64_t seed = 0;
  bool mtp = true;
  std::string directory;  // on disk only
};

/// "4", "8", "16" or the name of a block format. False for anything else.
bool set_width(std::string_view text, SynthOptions& options);
inline constexpr const char* kSynthWidths[] = {"4", "8", "16", "mxfp4", "mxfp8", "nvfp4"};

/// True if stored as codes and scales (affine tensors also have biases).
bool quantised(const SynthTensor& tensor, int bits);
format::DType plain_dtype(const SynthTensor& tensor);
/// The stored name, with ".weight" where needed.
std::string stored_name(const SynthTensor& tensor);
/// The stored arrays, in order: three for affine, two for block floats, else one.
std::vector<format::TensorSpec> specs_of(const SynthTensor& tensor, const SynthOptions& options);
std::int64_t bytes_of(const format::TensorSpec& spec);
/// The code step that gives a quantised tensor its deviation.
float code_step(const SynthTensor& tensor, int bits);
/// The scale that gives a block-float tensor its deviation.
std::uint8_t scale_byte(const SynthTensor& tensor, format::QuantMode mode);
/// One element of a plain tensor.
float element(const SynthTensor& tensor, Random& random);
std::string config_json(const SynthOptions& options);
/// Adds the key `quantization` for quantised weights.
void add_quantisation(nlohmann::ordered_json& config, const SynthOptions& options);
/// Whether each quantised matrix has whole groups.
Status check_groups(const SynthOptions& options);
Status check_groups(const std::vector<SynthTensor>& tensors, const SynthOptions& options);

}  // namespace ft
