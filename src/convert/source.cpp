#include "convert/source.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "convert/foreign/modules.h"
#include "convert/paired_experts.h"
#include "format/key_reader.h"
#include "models/blocks/limits.h"
#include "models/family.h"
#include "models/gguf/model_file.h"
#include "models/head_layer.h"

namespace ft::convert {
namespace {

using format::TensorView;

/// Hugging Face stores the convolution as [C,1,K], MLX as [C,K,1]; without one, the names decide.
bool norms_are_final(const format::Checkpoint& checkpoint) {
  for (const TensorView& tensor : checkpoint.tensors()) {
    if (tensor.name.ends_with("linear_attn.conv1d.weight") && tensor.shape.size() == 3)
      return tensor.shape[2] == 1;
  }
  return checkpoint.metadata_format() == "mlx";
}

bool is_mlx_quantised(const format::Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.tensors(), [&](const TensorView& tensor) {
    if (tensor.dtype != format::DType::kU32 || !tensor.name.ends_with(".weight")) return false;
    const std::string module = tensor.name.substr(0, tensor.name.size() - std::string_view("weight").size());
    return checkpoint.find(module + "scales") != nullptr;
  });
}

std::string plain_format(const format::Checkpoint& checkpoint) {
  std::uint64_t bytes[3] = {};
  constexpr format::DType kTypes[] = {format::DType::kBF16, format::DType::kF16, format::DType::kF32};
  for (const TensorView& tensor : checkpoint.tensors()) {
    for (std::size_t i = 0; i < 3; ++i) bytes[i] += tensor.dtype == kTypes[i] ? tensor.bytes.size() : 0;
  }
  const auto most = static_cast<std::size_t>(std::max_element(bytes, bytes + 3) - bytes);
  return std::string(format::dtype_name(kTypes[most])) + " safetensors";
}

Result<Source> open_gguf(const std::string& path, bool float32_scales) {
  FT_ASSIGN(gguf::ModelFile file, gguf::open_model(path, float32_scales));
  Source source;
  source.directory = path;
  source.format = std::move(file.types);
  source.quantised = true, source.shifted_norms = true;
  source.config = std::move(file.config.config);
  if (auto texts = gguf::read_texts(path); texts.ok()) source.made_files = std::move(*texts);
  if (!file.config.generation->empty())
    source.made_files["generation_config.json"] = write_json(*file.config.generation, 2) + "\n";
  source.checkpoint = std::make_unique<format::Checkpoint>(std::move(file.checkpoint));
  const format::Checkpoint& opened = *source.checkpoint;
  source.fingerprint = opened.state_fingerprint();
  source.drop_pages = [&opened] { opened.drop_pages(); };
  for (const TensorView& tensor : opened.tensors()) {
    const bool stored = tensor.matrix == nullptr;
    source.tensors.push_back({tensor.name, tensor.shape, stored ? &tensor : nullptr,
                              stored ? format::plain_matrix(tensor) : tensor.matrix});
  }
  return source;
}

}  // namespace

std::optional<format::CodeFormat> mlx_codes(const format::MatrixSource& matrix) {
  const std::optional<format::CodeFormat> codes = matrix.codes();
  const bool affine = codes && codes->q.mode == format::QuantMode::kAffine;
  return affine && !format::is_affine_group(codes->q.group) ? std::nullopt : codes;
}

Result<Source> open_source(const std::string& path, bool float32_scales) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return open_gguf(path, float32_scales);
  if (!std::filesystem::is_directory(path, ignored)) {
    return Error{Code::kNotFound,
                 path + " does not exist; give a model folder with config.json and weights, or a .gguf file"};
  }
  Source source;
  source.directory = path;
  FT_ASSIGN(source.config, format::read_json_object((std::filesystem::path(path) / "config.json").string()));
  FT_ASSIGN(format::Checkpoint checkpoint, format::Checkpoint::open(path));
  format::KeyReader keys(*source.config, path + "/config.json");
  const Family* family = find_family(keys.text("model_type", ""));
  if (family != nullptr && family->head_is_a_layer)
    name_head_layer(checkpoint, keys.whole("num_hidden_layers", 0, 0, blocks::kMaxLayers));
  FT_TRY(keys.status());
  source.checkpoint = std::make_unique<format::Checkpoint>(std::move(checkpoint));
  const format::Checkpoint& opened = *source.checkpoint;
  source.shifted_norms = norms_are_final(opened);
  source.fingerprint = opened.state_fingerprint();
  source.drop_pages = [&opened] { opened.drop_pages(); };
  if (is_mlx_quantised(opened)) {
    return Error{Code::kUnsupported,
                 path + ": its weights are quantised already; give the bf16, f16 or f32 original"};
  }
  source.quantised = has_foreign_parts(opened);
  if (source.quantised) {
    FT_ASSIGN(const ForeignConfig config, read_foreign_config(*source.config, path + "/config.json"));
    source.format = foreign_format_name(config);
    FT_ASSIGN(source.tensors, read_foreign(opened, config, float32_scales));
    return source;
  }
  source.format = plain_format(opened);
  for (const TensorView& tensor : opened.tensors()) {
    SourceTensor entry{tensor.name, tensor.shape, &tensor, nullptr};
    if (format::dtype_is_float(tensor.dtype) && !tensor.shape.empty())
      entry.matrix = format::plain_matrix(tensor);
    source.tensors.push_back(std::move(entry));
  }
  if (family != nullptr && family->conversion.paired_experts)
    FT_TRY(divide_paired_experts(opened, source.tensors));
  return source;
}

}  // namespace ft::convert
