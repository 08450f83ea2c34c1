#include "models/synthetic/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "base/text_file.h"
#include "format/half.h"

namespace ft {
namespace {

using format::DType;
using format::TensorSpec;

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // per write
constexpr std::size_t kPieceElements = std::size_t{1} << 20;

/// The data that a file stores for these tensors, in order.
std::vector<TensorSpec> all_specs(const std::vector<SynthTensor>& tensors, const SynthOptions& options) {
  std::vector<TensorSpec> specs;
  for (const SynthTensor& tensor : tensors) {
    for (TensorSpec& spec : specs_of(tensor, options)) specs.push_back(std::move(spec));
  }
  return specs;
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
      FT_TRY(quantised(tensor, options_.bits) ? codes(writer, tensor) : plain(writer, tensor));
    }
    return writer.finish();
  }

 private:
  Status put(format::SafetensorsWriter& writer, const std::string& name, std::span<const std::byte> bytes,
             std::uint64_t offset) {
    FT_TRY(writer.write(name, bytes, offset));
    done_ += static_cast<std::int64_t>(bytes.size());
    if (progress_(done_, total_)) return {};
    return Error{Code::kCancelled, "stopped; the partial files are removed"};
  }

  Status codes(format::SafetensorsWriter& writer, const SynthTensor& tensor) {
    Random random(options_.seed, tensor.module + ".weight");
    const std::uint64_t all = static_cast<std::uint64_t>(tensor.rows * tensor.cols * options_.bits / 8);
    words_.resize(kPieceBytes / 8);
    for (std::uint64_t at = 0; at < all;) {
      const std::uint64_t size = std::min<std::uint64_t>(kPieceBytes, all - at);
      for (std::uint64_t i = 0; i < (size + 7) / 8; ++i) words_[i] = random.next();
      FT_TRY(put(writer, tensor.module + ".weight", std::as_bytes(std::span(words_)).first(size), at));
      at += size;
    }
    if (options_.mode != format::QuantMode::kAffine) {
      const std::int64_t groups = bytes_of(specs_of(tensor, options_)[1]);
      const std::vector<std::byte> scales(static_cast<std::size_t>(groups),
                                          std::byte{scale_byte(tensor, options_.mode)});
      return put(writer, tensor.module + ".scales", scales, 0);
    }
    const float levels = static_cast<float>((1 << options_.bits) - 1);
    const float step = code_step(tensor, options_.bits);
    for (const bool is_bias : {false, true}) {
      Random jitter(options_.seed,
                    tensor.module + ".scales");  // the same for both: a bias belongs to its scale
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
    std::vector<float> values(static_cast<std::size_t>(count));  // only for vectors
    for (float& value : values) value = element(tensor, random);
    return put(writer, name, std::as_bytes(std::span(values)), 0);
  }

  const SynthOptions& options_;
  const std::function<bool(std::int64_t, std::int64_t)>& progress_;
  std::int64_t total_, done_ = 0;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint16_t> halves_;
};

}  // namespace

Result<SynthResult> write_checkpoint(const SynthOptions& options,
                                     const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  FT_TRY(check_groups(options));
  const std::vector<SynthTensor> target = target_tensors(options.shape);
  const std::vector<SynthTensor> head =
      options.mtp ? head_tensors(options.shape) : std::vector<SynthTensor>();
  const std::vector<TensorSpec> target_specs = all_specs(target, options);
  const std::vector<TensorSpec> head_specs = all_specs(head, options);

  SynthResult result;
  for (const TensorSpec& spec : target_specs) result.bytes += bytes_of(spec);
  for (const TensorSpec& spec : head_specs) result.bytes += bytes_of(spec);
  for (const SynthTensor& tensor : target) result.parameters += tensor.rows * tensor.cols;
  for (const SynthTensor& tensor : head) result.parameters += tensor.rows * tensor.cols;

  std::error_code failed;
  std::filesystem::create_directories(options.directory, failed);
  if (failed) {
    return Error{Code::kIo, fmt::format("{} cannot be created: {}; choose another folder", options.directory,
                                        failed.message())};
  }
  CheckpointWriter writer(options, progress, result.bytes);
  FT_TRY(writer.file("model.safetensors", target, target_specs));
  if (options.mtp) FT_TRY(writer.file("mtp.safetensors", head, head_specs));
  // Written last, so that a folder with a config is a complete model.
  FT_TRY(write_text_file(options.directory + "/config.json", config_json(options)));
  return result;
}

}  // namespace ft
