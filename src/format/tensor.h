// TensorView: a named, typed, shaped view of bytes in a mapped file. Owner: the Checkpoint (or mapping) that
// made the view owns the bytes. Alignment: bytes may start at ANY address, because MLX files do not pad their
// headers; read elements with load_float or memcpy, never through a typed pointer. Byte order: little endian,
// in the file and on every supported machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft::format {

enum class DType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
};

std::size_t dtype_bytes(DType dtype);
/// The name used in a safetensors header: "BF16".
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
/// F32, F16 or BF16: the types that load_float reads and that scales may have.
bool dtype_is_float(DType dtype);

class MatrixSource;

struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;   // row-major; () is one element
  std::span<const std::byte> bytes;  // (product of shape * dtype_bytes)
  std::string file;                  // for messages: the path of the file
  /// If the file holds the values in another form: makes the rows, and `bytes` are the file's form.
  std::shared_ptr<const MatrixSource> matrix = nullptr;
};

/// Element `index` of F32, F16 or BF16 data at any address, widened exactly.
float load_float(const std::byte* data, DType dtype, std::size_t index);
/// `count` elements from `first`, widened into `out`, under the same rules.
void load_floats(const std::byte* data, DType dtype, std::size_t first, std::size_t count, float* out);

/// "[8192,320]"
std::string shape_text(std::span<const std::int64_t> shape);
/// `name` in quotes, cut to a length that fits a message, with invalid UTF-8 replaced.
std::string in_quotes(std::string_view name);
/// "FILE: tensor 'NAME': expected EXPECTED, found FOUND; NEXT": the one form of every error about a tensor.
Error tensor_error(Code code, std::string_view file, std::string_view name, std::string_view expected,
                   std::string_view found, std::string_view next);

}  // namespace ft::format
