#include "format/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "format/json_text.h"

namespace ft::format {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensor bytes are used as stored");

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kAgain = "the file is damaged: download or convert it again";

Error file_error(const std::string& path, const std::string& expected, const std::string& found) {
  return Error{Code::kCorrupt,
               path + ": expected " + expected + ", found " + found + "; " + std::string(kAgain)};
}

/// Position of one tensor's data, relative to the data block.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::span<const std::byte> data) : path_(path), data_(data) {}

  Status read_tensor(const std::string& name, const json& entry);
  Status read_metadata(const json& entry);
  void sort_by_place();
  Status check_cover() const;
  Safetensors take();

 private:
  Error complain(std::string_view name, const std::string& expected, const std::string& found) const {
    return tensor_error(Code::kCorrupt, path_, name, expected, found, kAgain);
  }
  Result<DType> read_dtype(const std::string& name, const json& entry) const;
  Result<std::vector<std::int64_t>> read_shape(const std::string& name, const json& entry) const;
  Result<Extent> read_extent(const std::string& name, const json& entry) const;

  struct Placed {
    Extent extent;
    TensorView view;
  };

  const std::string& path_;
  std::span<const std::byte> data_;
  std::vector<Placed> placed_;
  std::map<std::string, std::string> metadata_;
};

std::string kind_of(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) return "none";
  std::string text = at->dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  return text;
}

Result<DType> HeaderReader::read_dtype(const std::string& name, const json& entry) const {
  const auto at = entry.find("dtype");
  if (at == entry.end() || !at->is_string()) {
    return complain(name, "a 'dtype' that is a string", kind_of(entry, "dtype"));
  }
  const std::optional<DType> dtype = dtype_from_name(at->get_ref<const std::string&>());
  if (!dtype) {
    return tensor_error(Code::kUnsupported, path_, name, "an element type such as BF16, F16, F32, U32 or U8",
                        kind_of(entry, "dtype"), "convert the model to one of them");
  }
  return *dtype;
}

Result<std::vector<std::int64_t>> HeaderReader::read_shape(const std::string& name, const json& entry) const {
  const auto at = entry.find("shape");
  if (at == entry.end() || !at->is_array()) {
    return complain(name, "a 'shape' that is a list", kind_of(entry, "shape"));
  }
  if (at->size() > kMaxDimensions) {
    return complain(name, "at most " + std::to_string(kMaxDimensions) + " dimensions",
                    std::to_string(at->size()));
  }
  std::vector<std::int64_t> shape;
  shape.reserve(at->size());
  for (const json& side : *at) {
    if (!side.is_number_unsigned() || side.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
      return complain(name, "sides that are whole numbers, not negative, below 2^63",
                      kind_of(entry, "shape"));
    }
    shape.push_back(side.get<std::int64_t>());
  }
  return shape;
}

Result<Extent> HeaderReader::read_extent(const std::string& name, const json& entry) const {
  const auto at = entry.find("data_offsets");
  if (at == entry.end() || !at->is_array() || at->size() != 2 || !(*at)[0].is_number_unsigned() ||
      !(*at)[1].is_number_unsigned()) {
    return complain(name, "'data_offsets' of two whole numbers", kind_of(entry, "data_offsets"));
  }
  const Extent extent{(*at)[0].get<std::uint64_t>(), (*at)[1].get<std::uint64_t>()};
  if (extent.begin > extent.end) {
    return complain(name, "data that begins before it ends", kind_of(entry, "data_offsets"));
  }
  if (extent.end > data_.size()) {
    return complain(name, "data inside the file's " + std::to_string(data_.size()) + " bytes of tensor data",
                    "offsets " + kind_of(entry, "data_offsets") + " (is the file truncated?)");
  }
  return extent;
}

/// Bytes of a tensor; empty if the product does not fit 64 bits.
std::optional<std::uint64_t> byte_count(std::span<const std::int64_t> shape, DType dtype) {
  std::uint64_t bytes = dtype_bytes(dtype);
  for (const std::int64_t side : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(side), &bytes)) return std::nullopt;
  }
  return bytes;
}

Status HeaderReader::read_tensor(const std::string& name, const json& entry) {
  if (!entry.is_object()) return complain(name, "an object", std::string(entry.type_name()));
  FT_ASSIGN(const DType dtype, read_dtype(name, entry));
  FT_ASSIGN(std::vector<std::int64_t> shape, read_shape(name, entry));
  FT_ASSIGN(const Extent extent, read_extent(name, entry));

  const std::optional<std::uint64_t> bytes = byte_count(shape, dtype);
  const std::string what = std::string(dtype_name(dtype)) + " " + shape_text(shape);
  if (!bytes) return complain(name, "a size below 2^64 bytes", what);
  if (*bytes != extent.end - extent.begin) {
    return complain(name, std::to_string(*bytes) + " bytes of data for " + what,
                    std::to_string(extent.end - extent.begin));
  }
  TensorView view{name, dtype, std::move(shape), data_.subspan(extent.begin, *bytes), path_};
  placed_.push_back({extent, std::move(view)});
  return {};
}

Status HeaderReader::read_metadata(const json& entry) {
  if (entry.is_null()) return {};  // as the library reads it
  if (!entry.is_object()) return file_error(path_, "'__metadata__' to be an object", entry.type_name());
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) {
      return file_error(path_, "'__metadata__' to hold strings", in_quotes(key) + ": " + value.type_name());
    }
    metadata_.emplace(key, value.get<std::string>());
  }
  return {};
}

void HeaderReader::sort_by_place() {
  std::sort(placed_.begin(), placed_.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.extent.begin, a.extent.end) < std::tie(b.extent.begin, b.extent.end);
  });
}

/// In order of position, tensors must follow one another without overlap or hole and end where the file ends.
Status HeaderReader::check_cover() const {
  std::uint64_t reached = 0;
  const std::string* before = nullptr;
  for (const Placed& tensor : placed_) {
    if (tensor.extent.begin != reached) {
      const char* fault = tensor.extent.begin < reached ? " (overlap)" : " (hole)";
      return complain(tensor.view.name,
                      "data at offset " + std::to_string(reached) + ", where " +
                          (before == nullptr ? "the data begins" : in_quotes(*before) + " ends"),
                      std::to_string(tensor.extent.begin) + fault);
    }
    reached = tensor.extent.end;
    before = &tensor.view.name;
  }
  if (reached != data_.size()) {
    return file_error(path_, "tensor data to end at byte " + std::to_string(reached),
                      std::to_string(data_.size() - reached) + " bytes more");
  }
  return {};
}

Safetensors HeaderReader::take() {
  Safetensors result;
  result.tensors.reserve(placed_.size());
  for (Placed& tensor : placed_) result.tensors.push_back(std::move(tensor.view));
  result.metadata = std::move(metadata_);
  return result;
}

}  // namespace

Result<Safetensors> parse_safetensors(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < kLengthBytes) {
    return file_error(path, "a safetensors file of at least 8 bytes", std::to_string(file.size()));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    return file_error(path, "a header of at most " + std::to_string(kMaxHeaderBytes) + " bytes",
                      std::to_string(length) + " (is this a safetensors file?)");
  }
  if (length > file.size() - kLengthBytes) {
    return file_error(path, "a header of " + std::to_string(length) + " bytes",
                      "only " + std::to_string(file.size() - kLengthBytes) + " (is the file truncated?)");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  FT_ASSIGN(const JsonDocument document, parse_json(text, path, DuplicateKeys::kRefuse));
  const json& header = *document;
  if (!header.is_object()) return file_error(path, "a header that is an object", header.type_name());

  HeaderReader reader(path, file.subspan(kLengthBytes + length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      FT_TRY(reader.read_metadata(entry));
    } else {
      FT_TRY(reader.read_tensor(name, entry));
    }
  }
  reader.sort_by_place();
  FT_TRY(reader.check_cover());
  return reader.take();
}

}  // namespace ft::format
