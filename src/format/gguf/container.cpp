#include "format/gguf/container.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "base/utf8.h"
#include "format/gguf/blocks.h"
#include "format/tensor.h"

namespace ft::format {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMaxAlignment = 1U << 16;

// ggml's numbers of metadata types.
enum class Kind : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

struct Counts {
  std::uint64_t tensors = 0, keys = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  Result<GgufFile> run();
  GgufFile peek();

 private:
  Error corrupt(const std::string& what) const {
    return Error{Code::kCorrupt, path_ + ": " + what + " at byte " + std::to_string(at_) +
                                     "; the file is damaged: download it again"};
  }

  template <class T>
  Result<T> number() {
    if (at_ > kMaxGgufHeaderBytes) return corrupt("the header is longer than 256 MiB");
    if (file_.size() - at_ < sizeof(T)) return corrupt("the header ends early");
    T value;
    std::memcpy(&value, file_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  Result<std::string> string() {
    FT_ASSIGN(const std::uint64_t length, number<std::uint64_t>());
    if (length > file_.size() - at_)
      return corrupt("a string of " + std::to_string(length) + " bytes passes the end");
    std::string text(reinterpret_cast<const char*>(file_.data()) + at_, static_cast<std::size_t>(length));
    at_ += static_cast<std::size_t>(length);
    return text;
  }

  template <class T>
  Result<GgufValue> scalar() {
    FT_ASSIGN(const T value, number<T>());
    if constexpr (std::is_floating_point_v<T>) {
      return GgufValue(static_cast<double>(value));
    } else {
      return GgufValue(static_cast<std::int64_t>(value));
    }
  }

  Result<Counts> counts();
  Status entry(GgufFile& file);
  Result<GgufValue> value(Kind kind);
  Result<GgufValue> array();
  Result<GgufTensor> tensor();
  Status check_overlaps(const std::vector<std::pair<GgufTensor, std::uint64_t>>& placed) const;
  Status place(std::vector<std::pair<GgufTensor, std::uint64_t>>& placed, std::uint64_t alignment);

  std::span<const std::byte> file_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;  // of the tensor read last
};

Result<GgufValue> Reader::value(Kind kind) {
  switch (kind) {
    case Kind::kU8:
      return scalar<std::uint8_t>();
    case Kind::kI8:
      return scalar<std::int8_t>();
    case Kind::kU16:
      return scalar<std::uint16_t>();
    case Kind::kI16:
      return scalar<std::int16_t>();
    case Kind::kU32:
      return scalar<std::uint32_t>();
    case Kind::kI32:
      return scalar<std::int32_t>();
    case Kind::kU64:
      return scalar<std::uint64_t>();
    case Kind::kI64:
      return scalar<std::int64_t>();
    case Kind::kF32:
      return scalar<float>();
    case Kind::kF64:
      return scalar<double>();
    case Kind::kBool: {
      FT_ASSIGN(const std::uint8_t flag, number<std::uint8_t>());
      return GgufValue(flag != 0);
    }
    case Kind::kString: {
      FT_ASSIGN(std::string text, string());
      return GgufValue(std::move(text));
    }
    case Kind::kArray:
      return array();
  }
  return corrupt("a metadata type " + std::to_string(static_cast<std::uint32_t>(kind)) +
                 ", which does not exist,");
}

Result<GgufValue> Reader::array() {
  FT_ASSIGN(const std::uint32_t kind, number<std::uint32_t>());
  FT_ASSIGN(const std::uint64_t count, number<std::uint64_t>());
  if (kind == static_cast<std::uint32_t>(Kind::kArray)) return corrupt("an array of arrays");
  // Every element takes a byte at least, so this bounds the memory too.
  if (count > file_.size() - at_ || count > kMaxGgufElements)
    return corrupt("an array of " + std::to_string(count) +
                   " elements, which passes the end or the limit of " + std::to_string(kMaxGgufElements) +
                   ",");
  std::vector<std::int64_t> whole;
  std::vector<double> real;
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i) {
    FT_ASSIGN(GgufValue element, value(static_cast<Kind>(kind)));
    if (auto* text = std::get_if<std::string>(&element)) texts.push_back(std::move(*text));
    if (const auto* number = std::get_if<double>(&element)) real.push_back(*number);
    if (const auto* number = std::get_if<std::int64_t>(&element)) whole.push_back(*number);
    if (const auto* flag = std::get_if<bool>(&element)) whole.push_back(*flag ? 1 : 0);
  }
  if (kind == static_cast<std::uint32_t>(Kind::kString)) return GgufValue(std::move(texts));
  const bool floats =
      kind == static_cast<std::uint32_t>(Kind::kF32) || kind == static_cast<std::uint32_t>(Kind::kF64);
  return floats ? GgufValue(std::move(real)) : GgufValue(std::move(whole));
}

Result<GgufTensor> Reader::tensor() {
  GgufTensor tensor;
  FT_ASSIGN(tensor.name, string());
  if (!utf8_valid(tensor.name)) return corrupt("a tensor's name is not UTF-8");
  FT_ASSIGN(const std::uint32_t dimensions, number<std::uint32_t>());
  if (dimensions > kMaxGgufDimensions)
    return corrupt("a tensor of " + std::to_string(dimensions) + " dimensions");
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    FT_ASSIGN(const std::uint64_t side, number<std::uint64_t>());
    if (side == 0 || side > (std::uint64_t{1} << 40)) return corrupt("a side of " + std::to_string(side));
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(side));
  }
  FT_ASSIGN(tensor.type, number<std::uint32_t>());
  FT_ASSIGN(offset_, number<std::uint64_t>());
  return tensor;
}

/// No byte belongs to two tensors.
Status Reader::check_overlaps(const std::vector<std::pair<GgufTensor, std::uint64_t>>& placed) const {
  std::vector<const GgufTensor*> order;
  order.reserve(placed.size());
  for (const auto& [tensor, offset] : placed) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const GgufTensor* tensor) { return tensor->bytes.data(); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->bytes.data() + order[i - 1]->bytes.size() <= order[i]->bytes.data()) continue;
    return tensor_error(Code::kCorrupt, path_, order[i]->name, "bytes that no other tensor has",
                        "some of " + in_quotes(order[i - 1]->name), "download the file again");
  }
  return {};
}

/// Gives every tensor its bytes.
Status Reader::place(std::vector<std::pair<GgufTensor, std::uint64_t>>& placed, std::uint64_t alignment) {
  const std::uint64_t begin = (at_ + alignment - 1) / alignment * alignment;
  for (auto& [tensor, offset] : placed) {
    FT_ASSIGN(const std::uint64_t bytes, gguf_bytes(tensor.type, tensor.shape, path_, tensor.name));
    if (begin > file_.size() || offset > file_.size() - begin || bytes > file_.size() - begin - offset) {
      return tensor_error(
          Code::kCorrupt, path_, tensor.name, std::to_string(bytes) + " bytes inside the file",
          "offset " + std::to_string(offset) + " (is the file truncated?)", "download it again");
    }
    tensor.bytes = file_.subspan(static_cast<std::size_t>(begin + offset), static_cast<std::size_t>(bytes));
  }
  return check_overlaps(placed);
}

Result<Counts> Reader::counts() {
  if (file_.size() < 24 || std::memcmp(file_.data(), kMagic.data(), kMagic.size()) != 0)
    return Error{Code::kCorrupt, path_ + ": is not a GGUF file; give a .gguf file or a model folder"};
  at_ = kMagic.size();
  FT_ASSIGN(const std::uint32_t version, number<std::uint32_t>());
  if (version != 2 && version != 3) {
    return Error{Code::kUnsupported,
                 path_ + ": GGUF version " + std::to_string(version) +
                     " is not read, only 2 and 3 in little-endian order; download another file"};
  }
  Counts counts;
  FT_ASSIGN(counts.tensors, number<std::uint64_t>());
  FT_ASSIGN(counts.keys, number<std::uint64_t>());
  if (counts.tensors > kMaxGgufTensors || counts.keys > kMaxGgufKeys) return corrupt("impossible counts");
  return counts;
}

Status Reader::entry(GgufFile& file) {
  FT_ASSIGN(std::string key, string());
  if (file.metadata.contains(key)) return corrupt("the key " + in_quotes(key) + " occurs twice");
  FT_ASSIGN(const std::uint32_t kind, number<std::uint32_t>());
  FT_ASSIGN(GgufValue found, value(static_cast<Kind>(kind)));
  file.metadata.emplace(std::move(key), std::move(found));
  return {};
}

GgufFile Reader::peek() {
  GgufFile file;
  const Result<Counts> counts = this->counts();
  for (std::uint64_t i = 0; counts.ok() && i < counts->keys; ++i) {
    if (!entry(file).ok()) break;
  }
  return file;
}

Result<GgufFile> Reader::run() {
  FT_ASSIGN(const Counts counts, this->counts());
  GgufFile file;
  for (std::uint64_t i = 0; i < counts.keys; ++i) FT_TRY(entry(file));
  std::vector<std::pair<GgufTensor, std::uint64_t>> placed;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < counts.tensors; ++i) {
    FT_ASSIGN(GgufTensor next, tensor());
    if (!names.insert(next.name).second) return corrupt("tensor " + in_quotes(next.name) + " occurs twice");
    placed.emplace_back(std::move(next), offset_);
  }
  const std::int64_t alignment = file.whole("general.alignment", 32);
  if (alignment < 1 || static_cast<std::uint64_t>(alignment) > kMaxAlignment)
    return corrupt("an impossible alignment");
  file.header_bytes = at_;
  FT_TRY(place(placed, static_cast<std::uint64_t>(alignment)));
  for (auto& [tensor, offset] : placed) file.tensors.push_back(std::move(tensor));
  return file;
}

}  // namespace

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto at = metadata.find(key);
  return at == metadata.end() ? nullptr : &at->second;
}

std::string GgufFile::text(std::string_view key, const std::string& otherwise) const {
  const GgufValue* value = find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? otherwise : *text;
}

std::int64_t GgufFile::whole(std::string_view key, std::int64_t otherwise) const {
  const GgufValue* value = find(key);
  const auto* number = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return number == nullptr ? otherwise : *number;
}

double GgufFile::real(std::string_view key, double otherwise) const {
  const GgufValue* value = find(key);
  const auto* number = value == nullptr ? nullptr : std::get_if<double>(value);
  return number == nullptr ? otherwise : *number;
}

GgufFile peek_gguf(std::span<const std::byte> start) {
  const std::string name = "a GGUF file";
  return Reader(start, name).peek();
}

Result<GgufFile> parse_gguf(std::span<const std::byte> file, const std::string& path) {
  return Reader(file, path).run();
}

}  // namespace ft::format
