// The container of a GGUF file that is not trusted: metadata and tensor table, every count, string and offset
// checked against the file before it is used. Owner: the caller keeps the file mapped; views point into it.
// Cost: one pass over the header. Errors: kCorrupt (what, where), kUnsupported (version, byte order, element
// type). Source: the GGUF specification of ggml, versions 2 and 3.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ft::format {

inline constexpr std::uint64_t kMaxGgufTensors = 1U << 20;
inline constexpr std::uint64_t kMaxGgufKeys = 1U << 16;
inline constexpr std::size_t kMaxGgufDimensions = 4;
inline constexpr std::uint64_t kMaxGgufElements = 1U << 24;       // of an array
inline constexpr std::uint64_t kMaxGgufHeaderBytes = 256U << 20;  // before the tensors' data

/// Numbers are widened; arrays hold one kind.
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // rows first, as in safetensors: the file's order reversed
  std::uint32_t type = 0;           // ggml's number of the element type
  int part = 0;                     // the file of several that holds it
  std::span<const std::byte> bytes;
};

struct GgufFile {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // in the file's order
  std::uint64_t header_bytes = 0;   // metadata and tensor table

  const GgufValue* find(std::string_view key) const;
  /// The value, or `otherwise` if it is absent or of another kind.
  std::string text(std::string_view key, const std::string& otherwise) const;
  std::int64_t whole(std::string_view key, std::int64_t otherwise) const;
  double real(std::string_view key, double otherwise) const;
};

/// The metadata that the first bytes of a file hold whole; no tensors. Empty for other bytes.
GgufFile peek_gguf(std::span<const std::byte> start);
Result<GgufFile> parse_gguf(std::span<const std::byte> file, const std::string& path);

}  // namespace ft::format
