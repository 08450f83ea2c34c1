#include "tune/shard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "base/checksum.h"
#include "base/mapped_file.h"
#include "format/half.h"
#include "format/safetensors.h"
#include "format/writer.h"

namespace ft::tune {
namespace {

using format::DType, format::TensorSpec, format::TensorView;

constexpr const char* kFormat = "foretoken shard 2";
/// In the order of the checksum.
constexpr std::array<const char*, 4> kParts = {"documents", "tokens", "rows", "hidden"};

std::map<std::string, std::string> metadata_of(const ShardHeader& header) {
  return {{"format", kFormat},
          {"model", header.model},
          {"prompts", header.prompts},
          {"layers", fmt::format("{}", fmt::join(header.layers, ","))},
          {"first", std::to_string(header.first)}};
}

std::vector<TensorSpec> specs_of(const ShardHeader& header, std::int64_t documents, std::int64_t tokens) {
  return {{"documents", DType::kI32, {documents, 2}},
          {"tokens", DType::kI32, {tokens}},
          {"rows", DType::kF16, {tokens, header.width}},
          {"hidden", DType::kF16, {tokens, header.hidden}},
          {"checksum", DType::kU64, {1}}};
}

template <class T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// The parts of a shard as they are stored, whole in memory.
struct Parts {
  std::vector<std::int32_t> documents, tokens;
  std::vector<std::uint16_t> rows, hidden;
};

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

Parts parts_of(const ShardHeader& header, std::span<const Document> documents) {
  Parts parts;
  for (const Document& document : documents) {
    const std::size_t tokens = document.tokens.size();
    FT_ASSERT(document.rows.size() == tokens * static_cast<std::size_t>(header.width));
    FT_ASSERT(document.hidden.size() == tokens * static_cast<std::size_t>(header.hidden));
    parts.documents.push_back(static_cast<std::int32_t>(tokens));
    parts.documents.push_back(document.prompt_tokens);
    append(parts.tokens, document.tokens), append(parts.rows, document.rows);
    append(parts.hidden, document.hidden);
  }
  return parts;
}

/// One number over the checksums of all parts.
std::uint64_t sum_of(const std::array<std::span<const std::byte>, kParts.size()>& parts) {
  std::array<std::uint64_t, kParts.size()> sums{};
  std::ranges::transform(parts, sums.begin(), [](auto part) { return checksum(part); });
  return checksum(std::as_bytes(std::span(sums)));
}

Error shard_error(Code code, const std::string& path, const std::string& what) {
  return Error{code, fmt::format("{}: {}; delete it, and tune writes it again", path, what)};
}

/// A mapped shard whose sizes and checksum are right.
struct Opened {
  MappedFile file;
  std::array<TensorView, kParts.size()> parts;
  std::int64_t documents = 0, tokens = 0;
};

template <class T>
std::vector<T> values(const TensorView& view) {
  std::vector<T> out(view.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

Status check_documents(const Opened& opened, const std::string& path) {
  const std::vector<std::int32_t> sizes = values<std::int32_t>(opened.parts[0]);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < sizes.size(); i += 2) {
    const bool good = sizes[i] > 0 && sizes[i + 1] >= 0 && sizes[i + 1] <= sizes[i];
    if (!good) return shard_error(Code::kCorrupt, path, fmt::format("text {} has an impossible size", i / 2));
    sum += sizes[i];
  }
  if (sum == opened.tokens) return {};
  return shard_error(Code::kCorrupt, path, "the sizes of its texts do not add up");
}

Status find_parts(const format::Safetensors& parsed, const ShardHeader& expected, const std::string& path,
                  Opened& opened, std::uint64_t& sum) {
  const auto find = [&](const std::string& name) {
    return std::ranges::find(parsed.tensors, name, &TensorView::name);
  };
  const auto documents = find("documents"), tokens = find("tokens");
  const bool sized = documents != parsed.tensors.end() && tokens != parsed.tensors.end() &&
                     documents->shape.size() == 2 && tokens->shape.size() == 1;
  if (!sized) return shard_error(Code::kCorrupt, path, "a part is absent");
  opened.documents = documents->shape[0], opened.tokens = tokens->shape[0];
  for (const TensorSpec& spec : specs_of(expected, opened.documents, opened.tokens)) {
    const auto found = find(spec.name);
    if (found == parsed.tensors.end() || found->dtype != spec.dtype || found->shape != spec.shape)
      return shard_error(Code::kCorrupt, path, fmt::format("'{}' has another size", spec.name));
    const auto part = std::ranges::find(kParts, spec.name);
    if (part != kParts.end()) {
      opened.parts[static_cast<std::size_t>(part - kParts.begin())] = *found;
    } else {
      std::memcpy(&sum, found->bytes.data(), sizeof sum);
    }
  }
  return {};
}

Result<Opened> open_shard(const std::string& path, const ShardHeader& expected) {
  Opened opened;
  FT_ASSIGN(opened.file, MappedFile::open(path));
  Result<format::Safetensors> parsed = format::parse_safetensors(opened.file.bytes(), path);
  if (!parsed.ok()) return shard_error(Code::kCorrupt, path, "it is torn");
  for (const auto& [key, value] : metadata_of(expected)) {
    const auto found = parsed->metadata.find(key);
    if (found == parsed->metadata.end() || found->second != value)
      return shard_error(Code::kInvalid, path, fmt::format("it belongs to other work ({} differs)", key));
  }
  std::uint64_t sum = 0;
  FT_TRY(find_parts(*parsed, expected, path, opened, sum));
  std::array<std::span<const std::byte>, kParts.size()> bytes;
  std::ranges::transform(opened.parts, bytes.begin(), &TensorView::bytes);
  if (sum_of(bytes) != sum) return shard_error(Code::kCorrupt, path, "its checksum is wrong");
  FT_TRY(check_documents(opened, path));
  return opened;
}

}  // namespace

std::uint16_t finite_half(float value) {
  constexpr float kLargest = 65504;
  if (std::isnan(value)) return 0;
  return format::float_to_f16(std::clamp(value, -kLargest, kLargest));
}

std::int64_t shard_bytes(const ShardHeader& header, std::int64_t documents, std::int64_t tokens) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : specs_of(header, documents, tokens)) {
    auto size = static_cast<std::int64_t>(format::dtype_bytes(spec.dtype));
    for (const std::int64_t extent : spec.shape) size *= extent;
    bytes += size;
  }
  return bytes;
}

Status write_shard(const std::string& path, const ShardHeader& header, std::span<const Document> documents) {
  const Parts parts = parts_of(header, documents);
  const std::array<std::span<const std::byte>, kParts.size()> bytes = {
      raw(parts.documents), raw(parts.tokens), raw(parts.rows), raw(parts.hidden)};
  const std::uint64_t sum = sum_of(bytes);
  FT_ASSIGN(format::SafetensorsWriter writer,
            format::SafetensorsWriter::create(path,
                                              specs_of(header, static_cast<std::int64_t>(documents.size()),
                                                       static_cast<std::int64_t>(parts.tokens.size())),
                                              metadata_of(header)));
  for (std::size_t i = 0; i < kParts.size(); ++i) FT_TRY(writer.write(kParts[i], bytes[i]));
  FT_TRY(writer.write("checksum", std::as_bytes(std::span(&sum, 1))));
  return writer.finish();
}

Result<ShardSize> check_shard(const std::string& path, const ShardHeader& expected) {
  FT_ASSIGN(const Opened opened, open_shard(path, expected));
  ShardSize size{opened.documents, opened.tokens, 0};
  const std::vector<std::int32_t> sizes = values<std::int32_t>(opened.parts[0]);
  for (std::size_t i = 0; i < sizes.size(); i += 2) size.answer_tokens += sizes[i] - sizes[i + 1];
  return size;
}

Result<std::vector<Document>> read_shard(const std::string& path, const ShardHeader& expected) {
  FT_ASSIGN(const Opened opened, open_shard(path, expected));
  const auto sizes = values<std::int32_t>(opened.parts[0]), tokens = values<std::int32_t>(opened.parts[1]);
  const auto rows = values<std::uint16_t>(opened.parts[2]), hidden = values<std::uint16_t>(opened.parts[3]);
  const auto slice = [](const auto& all, std::int64_t first, std::int64_t count, std::int64_t each) {
    return std::decay_t<decltype(all)>(all.begin() + first * each, all.begin() + (first + count) * each);
  };
  std::vector<Document> documents;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); i += 2) {
    const std::int32_t count = sizes[i];
    documents.push_back({slice(tokens, at, count, 1), sizes[i + 1], slice(rows, at, count, expected.width),
                         slice(hidden, at, count, expected.hidden)});
    at += count;
  }
  return documents;
}

}  // namespace ft::tune
