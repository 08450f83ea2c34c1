// Reads the header of a safetensors file that is not trusted: every offset, shape and size is checked against
// the file before a view is made, so a reader of the view needs no further check. Owner: the caller keeps
// `file` mapped; the views point into it. Cost: one pass over the header, none over the data. Errors:
// kCorrupt (file, tensor, expected, found, next step), kUnsupported (element type). Source: the safetensors
// format, "Format" section of its README; like its reference reader this one refuses holes between tensors
// and bytes after the last. Unaligned data is legal and common (mlx's writer pads neither the header nor
// between tensors), so views promise no alignment.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/tensor.h"

namespace ft::format {

inline constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
inline constexpr std::size_t kMaxDimensions = 8;

struct Safetensors {
  std::vector<TensorView> tensors;              // in the order of their data in the file
  std::map<std::string, std::string> metadata;  // __metadata__
};

/// `path` begins every message and becomes TensorView::file.
Result<Safetensors> parse_safetensors(std::span<const std::byte> file, const std::string& path);

}  // namespace ft::format
