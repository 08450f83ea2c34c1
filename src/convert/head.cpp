#include "convert/head.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "convert/source.h"
#include "format/half.h"
#include "format/writer.h"

namespace ft::convert {
namespace {

using format::DType;
using format::TensorView;

/// "mtp.norm.weight", whatever is before it.
std::string head_name(const std::string& stored) { return stored.substr(stored.find("mtp.")); }

bool is_norm(const TensorView& tensor) { return tensor.shape.size() == 1; }

/// Floats, or codes with scales as MLX stores them.
bool can_be_kept(const TensorView& tensor) {
  return format::dtype_is_float(tensor.dtype) || tensor.dtype == DType::kU32 ||
         (tensor.dtype == DType::kU8 && tensor.name.ends_with(".scales"));
}

std::vector<float> final_norm(const TensorView& tensor, float offset) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.front()));
  format::load_floats(tensor.bytes.data(), tensor.dtype, 0, values.size(), values.data());
  for (float& value : values) value += offset;
  return values;
}

/// Keeps a source, its decoded head and zeros in place of other coded matrices.
struct DecodedBytes {
  explicit DecodedBytes(Source opened) : source(std::move(opened)) {}
  DecodedBytes(const DecodedBytes&) = delete;
  DecodedBytes& operator=(const DecodedBytes&) = delete;
  ~DecodedBytes() {
    if (zeros != MAP_FAILED) ::munmap(zeros, zero_bytes);
  }

  Result<std::vector<TensorView>> decode() {
    for (const SourceTensor& tensor : source.tensors) {
      if (tensor.stored == nullptr && !format::is_mtp_name(tensor.name))
        zero_bytes = std::max(zero_bytes, bf16_bytes(tensor));
    }
    // Never written, so all its pages are the one page of zeros.
    if (zero_bytes > 0)
      zeros = ::mmap(nullptr, zero_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zero_bytes > 0 && zeros == MAP_FAILED)
      return Error{Code::kExhausted, source.directory + ": no address space for its largest matrix"};
    std::vector<TensorView> tensors;
    for (const SourceTensor& tensor : source.tensors) {
      if (tensor.stored != nullptr) {
        tensors.push_back(*tensor.stored);
      } else {
        tensors.push_back({tensor.name, DType::kBF16, tensor.shape, bytes_of(tensor), source.directory});
      }
    }
    return tensors;
  }

  Source source;
  std::list<std::vector<std::uint16_t>> head;
  void* zeros = MAP_FAILED;
  std::size_t zero_bytes = 0;

 private:
  static std::size_t bf16_bytes(const SourceTensor& tensor) {
    return static_cast<std::size_t>(tensor.matrix->rows() * tensor.matrix->cols()) * sizeof(std::uint16_t);
  }

  std::span<const std::byte> bytes_of(const SourceTensor& tensor) {
    if (!format::is_mtp_name(tensor.name)) return {static_cast<const std::byte*>(zeros), bf16_bytes(tensor)};
    const format::MatrixSource& matrix = *tensor.matrix;
    std::vector<float> row(static_cast<std::size_t>(matrix.cols()));
    std::vector<std::uint16_t>& values = head.emplace_back();
    for (std::int64_t r = 0; r < matrix.rows(); ++r) {
      matrix.read(r, 1, row.data());
      for (const float value : row) values.push_back(format::float_to_bf16(value));
    }
    return std::as_bytes(std::span(values));
  }
};

}  // namespace

Result<WrittenHead> write_head(const format::Checkpoint& from, float norm_offset, const std::string& path) {
  std::vector<const TensorView*> head;
  std::vector<format::TensorSpec> specs;
  for (const TensorView& tensor : from.tensors()) {
    if (!format::is_mtp_name(tensor.name)) continue;
    if (!can_be_kept(tensor) || (is_norm(tensor) && !format::dtype_is_float(tensor.dtype))) {
      return format::tensor_error(Code::kUnsupported, tensor.file, tensor.name, "floats or codes of MLX",
                                  std::string(format::dtype_name(tensor.dtype)),
                                  "take the head of the bf16 original, or convert this model first");
    }
    head.push_back(&tensor);
    specs.push_back({head_name(tensor.name), is_norm(tensor) ? DType::kF32 : tensor.dtype, tensor.shape});
  }
  if (head.empty())
    return Error{Code::kNotFound, from.directory() + ": holds no mtp.* tensors; take another checkpoint"};
  FT_ASSIGN(format::SafetensorsWriter writer,
            format::SafetensorsWriter::create(path, specs, {{"format", "mlx"}}));
  WrittenHead written;
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (is_norm(*head[i])) {
      const std::vector<float> values = final_norm(*head[i], norm_offset);
      FT_TRY(writer.write(specs[i].name, std::as_bytes(std::span(values))));
      written.bytes += values.size() * sizeof(float);
    } else {
      FT_TRY(writer.write(specs[i].name, head[i]->bytes));
      written.bytes += head[i]->bytes.size();
    }
    ++written.tensors;
  }
  FT_TRY(writer.finish());
  return written;
}

Result<DecodedHead> decode_head(const std::string& directory) {
  FT_ASSIGN(Source source, open_source(directory));
  FT_ASSIGN(format::ConfigFiles files, format::ConfigFiles::read(directory));
  nlohmann::json& config = *files.config;
  config.erase("quantization_config");
  if (const auto text = config.find("text_config"); text != config.end() && text->is_object())
    text->erase("quantization_config");
  auto bytes = std::make_shared<DecodedBytes>(std::move(source));
  FT_ASSIGN(std::vector<TensorView> tensors, bytes->decode());
  const std::string metadata = bytes->source.checkpoint->metadata_format();
  FT_ASSIGN(format::Checkpoint checkpoint,
            format::Checkpoint::of_memory(directory, std::move(tensors), metadata, bytes));
  return DecodedHead{std::move(files), std::move(checkpoint)};
}

}  // namespace ft::convert
