#include "convert/head.h"

#include <cstring>
#include <vector>

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

}  // namespace ft::convert
