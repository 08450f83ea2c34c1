#include "models/synthetic/tensors.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ft {
namespace {

using format::DType;
using format::TensorSpec;
using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

/// The effective group size: a block format has its own.
int group_of(const SynthOptions& options) {
  return options.mode == format::QuantMode::kAffine ? options.group : usual_quantisation(options.mode).group;
}

/// [rows, cols], or with a stack [matrices, rows of one, cols].
std::vector<std::int64_t> shape_of(const SynthTensor& tensor, std::int64_t cols) {
  if (tensor.stack == 0) return {tensor.rows, cols};
  return {tensor.stack, tensor.rows / tensor.stack, cols};
}

}  // namespace

bool set_width(std::string_view text, SynthOptions& options) {
  if (std::ranges::find(kSynthWidths, text) == std::end(kSynthWidths)) return false;
  options.mode = format::find_quant_mode(text).value_or(format::QuantMode::kAffine);
  options.bits = options.mode == format::QuantMode::kAffine ? std::stoi(std::string(text))
                                                            : usual_quantisation(options.mode).bits;
  return true;
}

bool quantised(const SynthTensor& tensor, int bits) { return bits < 16 && tensor.kind == Kind::kMatrix; }

DType plain_dtype(const SynthTensor& tensor) {
  const bool norm = tensor.kind == Kind::kNorm || tensor.kind == Kind::kBareNorm;
  const bool wide = tensor.kind == Kind::kDecay || norm;
  return wide ? DType::kF32 : DType::kBF16;
}

std::string stored_name(const SynthTensor& tensor) {
  const bool bare = tensor.kind == Kind::kDecay || tensor.kind == Kind::kTimeBias ||
                    tensor.kind == Kind::kBareNorm || tensor.kind == Kind::kBias;
  return bare ? tensor.module : tensor.module + ".weight";
}

std::vector<TensorSpec> specs_of(const SynthTensor& tensor, const SynthOptions& options) {
  const int bits = options.bits, group = group_of(options);
  if (quantised(tensor, bits) && options.mode != format::QuantMode::kAffine) {
    return {{tensor.module + ".weight", DType::kU32, shape_of(tensor, tensor.cols * bits / 32)},
            {tensor.module + ".scales", DType::kU8, shape_of(tensor, tensor.cols / group)}};
  }
  if (quantised(tensor, bits)) {
    return {{tensor.module + ".weight", DType::kU32, shape_of(tensor, tensor.cols * bits / 32)},
            {tensor.module + ".scales", DType::kBF16, shape_of(tensor, tensor.cols / group)},
            {tensor.module + ".biases", DType::kBF16, shape_of(tensor, tensor.cols / group)}};
  }
  if (tensor.kind == Kind::kConv) {
    return {{stored_name(tensor), DType::kBF16, {tensor.rows, tensor.cols, 1}}};
  }
  if (tensor.rows == 1) return {{stored_name(tensor), plain_dtype(tensor), {tensor.cols}}};
  return {{stored_name(tensor), plain_dtype(tensor), shape_of(tensor, tensor.cols)}};
}

std::int64_t bytes_of(const TensorSpec& spec) {
  auto bytes = static_cast<std::int64_t>(format::dtype_bytes(spec.dtype));
  for (const std::int64_t side : spec.shape) bytes *= side;
  return bytes;
}

float code_step(const SynthTensor& tensor, int bits) {
  const double deviation = tensor.scale / std::sqrt(static_cast<double>(tensor.cols));
  // Codes are uniform: speed does not depend on them, and this gives the intended variance.
  return static_cast<float>(2 * std::sqrt(3.0) * deviation) / static_cast<float>((1 << bits) - 1);
}

std::uint8_t scale_byte(const SynthTensor& tensor, format::QuantMode mode) {
  const double deviation = tensor.scale / std::sqrt(static_cast<double>(tensor.cols));
  const double of_codes = mode == format::QuantMode::kMxfp8 ? 110 : 2.9;  // deviation of uniform codes
  const double scale = deviation / of_codes;
  if (mode == format::QuantMode::kNvfp4) {  // e4m3 is linear up to 2^-5
    return static_cast<std::uint8_t>(std::clamp(std::round(scale * 512), 1.0, 15.0));
  }
  return static_cast<std::uint8_t>(127 + std::lround(std::log2(scale)));
}

float element(const SynthTensor& tensor, Random& random) {
  const double deviation = tensor.scale / std::sqrt(static_cast<double>(tensor.cols));
  switch (tensor.kind) {
    case Kind::kNorm:
    case Kind::kBareNorm:
      return 1.0F + 0.1F * random.wake();
    case Kind::kDecay:
      return std::log(1.0F + 15.0F * random.uniform());
    case Kind::kTimeBias:
      return random.wake() - 3.0F;
    case Kind::kConv:
      return 0.5F * random.wake();
    case Kind::kBias:
      return 0.2F * random.wake();
    case Kind::kMatrix:
    case Kind::kPlainMatrix:
      break;
  }
  return static_cast<float>(deviation) * random.wake();
}

void add_quantisation(Json& config, const SynthOptions& options) {
  if (options.bits >= 16) return;
  config["quantization"] = Json{
      {"group_size", group_of(options)}, {"bits", options.bits}, {"mode", quant_mode_name(options.mode)}};
}

std::string config_json(const SynthOptions& options) {
  const Shape& shape = options.shape;
  Json config = models_of(shape).config(shape, options.mtp);
  config["foretoken_synth"] = {{"shape", shape.name}, {"bits", options.bits}, {"seed", options.seed}};
  add_quantisation(config, options);
  if (options.mtp) {
    config["mlx_lm_extra_tensors"] = Json{{"mtp_file", "mtp.safetensors"}};
    config["mtplx_mtp_contract"] = Json{{"base_hidden_variant", "post_norm"},
                                        {"mtp_hidden_variant", "post_norm"},
                                        {"concat_order", "embedding_hidden"}};
  }
  return write_json(config, 2) + "\n";
}

Status check_groups(const SynthOptions& options) {
  std::vector<SynthTensor> tensors = target_tensors(options.shape);
  if (options.mtp) {
    const std::vector<SynthTensor> head = head_tensors(options.shape);
    tensors.insert(tensors.end(), head.begin(), head.end());
  }
  return check_groups(tensors, options);
}

Status check_groups(const std::vector<SynthTensor>& tensors, const SynthOptions& options) {
  const int group = group_of(options);
  for (const SynthTensor& tensor : tensors) {
    if (!quantised(tensor, options.bits) || tensor.cols % group == 0) continue;
    return Error{Code::kInvalid,
                 fmt::format("a group of {} does not divide the {} columns of {}; use a smaller group", group,
                             tensor.cols, tensor.module)};
  }
  return {};
}

}  // namespace ft
