#include "cli/synth_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text_file.h"
#include "format/half.h"
#include "format/writer.h"

namespace ft::cli {
namespace {

using format::DType;
using format::TensorSpec;
using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // of one write
constexpr std::size_t kPieceElements = std::size_t{1} << 20;

/// xoshiro256++ (Blackman and Vigna 2019), seeded by splitmix64.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 1469598103934665603U ^ seed;  // FNV-1a
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    for (std::uint64_t& word : state_) {
      hash += 0x9E3779B97F4A7C15U;
      std::uint64_t mixed = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9U;
      mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
      word = mixed ^ (mixed >> 31);
    }
  }
  std::uint64_t next() {
    const auto turned = [](std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); };
    const std::uint64_t result = turned(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0], state_[3] ^= state_[1], state_[1] ^= state_[2], state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = turned(state_[3], 45);
    return result;
  }
  /// [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  /// Mean 0, deviation 1, near normal: the sum of four uniforms.
  float bell() { return (uniform() + uniform() + uniform() + uniform() - 2.0F) * 1.7320508F; }

 private:
  std::uint64_t state_[4];
};

bool quantised(const SynthTensor& tensor, int bits) { return bits < 16 && tensor.kind == Kind::kMatrix; }

DType plain_dtype(const SynthTensor& tensor) {
  const bool wide = tensor.kind == Kind::kDecay || tensor.kind == Kind::kNorm;
  return wide ? DType::kF32 : DType::kBF16;
}

std::string stored_name(const SynthTensor& tensor) {
  const bool bare = tensor.kind == Kind::kDecay || tensor.kind == Kind::kTimeBias;
  return bare ? tensor.module : tensor.module + ".weight";
}

std::vector<TensorSpec> specs_of(const std::vector<SynthTensor>& tensors, int bits, int group) {
  std::vector<TensorSpec> specs;
  for (const SynthTensor& t : tensors) {
    if (quantised(t, bits)) {
      specs.push_back({t.module + ".weight", DType::kU32, {t.rows, t.cols * bits / 32}});
      specs.push_back({t.module + ".scales", DType::kBF16, {t.rows, t.cols / group}});
      specs.push_back({t.module + ".biases", DType::kBF16, {t.rows, t.cols / group}});
    } else if (t.kind == Kind::kConv) {
      specs.push_back({stored_name(t), DType::kBF16, {t.rows, t.cols, 1}});
    } else if (t.rows == 1) {
      specs.push_back({stored_name(t), plain_dtype(t), {t.cols}});
    } else {
      specs.push_back({stored_name(t), plain_dtype(t), {t.rows, t.cols}});
    }
  }
  return specs;
}

std::int64_t bytes_of(const std::vector<TensorSpec>& specs) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : specs) {
    std::int64_t elements = 1;
    for (const std::int64_t side : spec.shape) elements *= side;
    bytes += elements * static_cast<std::int64_t>(format::dtype_bytes(spec.dtype));
  }
  return bytes;
}

/// One element of a plain tensor.
float element(const SynthTensor& tensor, Random& random) {
  const double deviation = tensor.scale / std::sqrt(static_cast<double>(tensor.cols));
  switch (tensor.kind) {
    case Kind::kNorm:
      return 1.0F + 0.1F * random.bell();
    case Kind::kDecay:
      return std::log(1.0F + 15.0F * random.uniform());
    case Kind::kTimeBias:
      return random.bell() - 3.0F;
    case Kind::kConv:
      return 0.5F * random.bell();
    case Kind::kMatrix:
    case Kind::kPlainMatrix:
      break;
  }
  return static_cast<float>(deviation) * random.bell();
}

class CheckpointWriter {
 public:
  CheckpointWriter(const SynthOptions& options,
                   const std::function<bool(std::int64_t, std::int64_t)>& progress, std::int64_t total)
      : options_(options), progress_(progress), total_(total) {}

  Status file(const std::string& name, const std::vector<SynthTensor>& tensors,
              const std::vector<TensorSpec>& specs) {
    const std::string path = options_.directory + "/" + name;
    FT_ASSIGN(format::SafetensorsWriter writer,
              format::SafetensorsWriter::create(path, specs, {{"format", "mlx"}}));
    for (const SynthTensor& tensor : tensors) {
      FT_TRY(quantised(tensor, options_.bits) ? affine(writer, tensor) : plain(writer, tensor));
    }
    return writer.finish();
  }

 private:
  Status put(format::SafetensorsWriter& writer, const std::string& name, std::span<const std::byte> bytes,
             std::uint64_t offset) {
    FT_TRY(writer.write(name, bytes, offset));
    done_ += static_cast<std::int64_t>(bytes.size());
    if (progress_(done_, total_)) return {};
    return Error{Code::kCancelled, "stopped; what was written so far is removed"};
  }

  /// Codes are uniform: any code is as good as another for speed, and the variance is the wanted one.
  Status affine(format::SafetensorsWriter& writer, const SynthTensor& tensor) {
    Random codes(options_.seed, tensor.module + ".weight");
    const std::uint64_t all = static_cast<std::uint64_t>(tensor.rows * tensor.cols * options_.bits / 8);
    words_.resize(kPieceBytes / 8);
    for (std::uint64_t at = 0; at < all;) {
      const std::uint64_t size = std::min<std::uint64_t>(kPieceBytes, all - at);
      for (std::uint64_t i = 0; i < (size + 7) / 8; ++i) words_[i] = codes.next();
      FT_TRY(put(writer, tensor.module + ".weight", std::as_bytes(std::span(words_)).first(size), at));
      at += size;
    }
    const float levels = static_cast<float>((1 << options_.bits) - 1);
    const double deviation = tensor.scale / std::sqrt(static_cast<double>(tensor.cols));
    const float step = static_cast<float>(2 * std::sqrt(3.0) * deviation) / levels;
    for (const bool is_bias : {false, true}) {
      Random jitter(options_.seed, tensor.module + ".scales");  // the same for both: bias belongs to scale
      const std::string name = tensor.module + (is_bias ? ".biases" : ".scales");
      FT_TRY(halves(writer, name, tensor.rows * tensor.cols / options_.group, [&] {
        const float scale = step * (0.8F + 0.4F * jitter.uniform());
        return is_bias ? -scale * levels / 2 : scale;
      }));
    }
    return {};
  }

  template <class Next>
  Status halves(format::SafetensorsWriter& writer, const std::string& name, std::int64_t count, Next next) {
    for (std::int64_t at = 0; at < count;) {
      const auto some = std::min<std::int64_t>(static_cast<std::int64_t>(kPieceElements), count - at);
      halves_.resize(static_cast<std::size_t>(some));
      for (std::uint16_t& half : halves_) half = format::float_to_bf16(next());
      FT_TRY(put(writer, name, std::as_bytes(std::span(halves_)), static_cast<std::uint64_t>(at) * 2));
      at += some;
    }
    return {};
  }

  Status plain(format::SafetensorsWriter& writer, const SynthTensor& tensor) {
    const std::string name = stored_name(tensor);
    Random random(options_.seed, name);
    const std::int64_t count = tensor.rows * tensor.cols;
    if (plain_dtype(tensor) == DType::kBF16) {
      return halves(writer, name, count, [&] { return element(tensor, random); });
    }
    std::vector<float> values(static_cast<std::size_t>(count));  // vectors only
    for (float& value : values) value = element(tensor, random);
    return put(writer, name, std::as_bytes(std::span(values)), 0);
  }

  const SynthOptions& options_;
  const std::function<bool(std::int64_t, std::int64_t)>& progress_;
  std::int64_t total_, done_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint16_t> halves_;
};

std::string config_json(const SynthOptions& options) {
  const Shape& shape = options.shape;
  Json layers = Json::array();
  for (int i = 0; i < shape.layers; ++i) {
    layers.push_back(shape.full_attention(i) ? "full_attention" : "linear_attention");
  }
  const Json text{{"model_type", "qwen3_5_text"},
                  {"vocab_size", shape.vocabulary},
                  {"hidden_size", shape.hidden},
                  {"intermediate_size", shape.intermediate},
                  {"num_hidden_layers", shape.layers},
                  {"num_attention_heads", shape.heads},
                  {"num_key_value_heads", shape.kv_heads},
                  {"head_dim", Shape::kHeadDim},
                  {"hidden_act", "silu"},
                  {"rms_norm_eps", 1e-6},
                  {"max_position_embeddings", shape.context},
                  {"attention_bias", false},
                  {"attn_output_gate", true},
                  {"full_attention_interval", Shape::kFullEvery},
                  {"layer_types", std::move(layers)},
                  {"linear_conv_kernel_dim", Shape::kConvTaps},
                  {"linear_key_head_dim", Shape::kLinearDim},
                  {"linear_value_head_dim", Shape::kLinearDim},
                  {"linear_num_key_heads", shape.key_heads},
                  {"linear_num_value_heads", shape.value_heads},
                  {"mamba_ssm_dtype", "float32"},
                  {"mtp_num_hidden_layers", options.mtp ? 1 : 0},
                  {"mtp_use_dedicated_embeddings", false},
                  {"tie_word_embeddings", shape.tied},
                  {"rope_parameters",
                   {{"rope_type", "default"},
                    {"rope_theta", 10000000},
                    {"partial_rotary_factor", 0.25},
                    {"mrope_section", {11, 11, 10}},
                    {"mrope_interleaved", true}}}};
  Json config{{"architectures", {"Qwen3_5ForConditionalGeneration"}},
              {"model_type", "qwen3_5"},
              {"tie_word_embeddings", shape.tied},
              {"text_config", text},
              {"foretoken_synth", {{"shape", shape.name}, {"bits", options.bits}, {"seed", options.seed}}}};
  if (options.bits < 16) {
    config["quantization"] = Json{{"group_size", options.group}, {"bits", options.bits}, {"mode", "affine"}};
  }
  if (options.mtp) {
    config["mlx_lm_extra_tensors"] = Json{{"mtp_file", "mtp.safetensors"}};
    config["mtplx_mtp_contract"] = Json{{"base_hidden_variant", "post_norm"},
                                        {"mtp_hidden_variant", "post_norm"},
                                        {"concat_order", "embedding_hidden"}};
  }
  return config.dump(2) + "\n";
}

Status check_groups(const std::vector<SynthTensor>& tensors, const SynthOptions& options) {
  for (const SynthTensor& tensor : tensors) {
    if (!quantised(tensor, options.bits) || tensor.cols % options.group == 0) continue;
    return Error{Code::kInvalid,
                 fmt::format("--group {} does not divide the {} columns of {}; take a smaller group",
                             options.group, tensor.cols, tensor.module)};
  }
  return {};
}

}  // namespace

Result<SynthResult> write_checkpoint(const SynthOptions& options,
                                     const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  const std::vector<SynthTensor> trunk = trunk_tensors(options.shape), head = head_tensors(options.shape);
  FT_TRY(check_groups(trunk, options));
  if (options.mtp) FT_TRY(check_groups(head, options));
  const std::vector<TensorSpec> trunk_specs = specs_of(trunk, options.bits, options.group);
  const std::vector<TensorSpec> head_specs = specs_of(head, options.bits, options.group);

  SynthResult result;
  result.bytes = bytes_of(trunk_specs) + (options.mtp ? bytes_of(head_specs) : 0);
  for (const SynthTensor& tensor : trunk) result.parameters += tensor.rows * tensor.cols;
  for (const SynthTensor& tensor : head) result.parameters += options.mtp ? tensor.rows * tensor.cols : 0;

  std::error_code failed;
  std::filesystem::create_directories(options.directory, failed);
  if (failed) {
    return Error{Code::kIo, fmt::format("{} cannot be made: {}; choose another place", options.directory,
                                        failed.message())};
  }
  CheckpointWriter writer(options, progress, result.bytes);
  FT_TRY(writer.file("model.safetensors", trunk, trunk_specs));
  if (options.mtp) FT_TRY(writer.file("mtp.safetensors", head, head_specs));
  // Last, so that a folder with a config is a whole model.
  FT_TRY(write_text_file(options.directory + "/config.json", config_json(options)));
  return result;
}

}  // namespace ft::cli
