// Any bytes as a GGUF file are refused or give tensors whose bytes can be decoded.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "format/gguf/blocks.h"
#include "format/gguf/container.h"
#include "format/gguf/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = ft::format::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz");
  if (!parsed.ok()) return 0;
  (void)ft::format::tokenizer_files(*parsed, "fuzz");
  for (const ft::format::GgufTensor& tensor : parsed->tensors) {
    const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
    const std::int64_t rows = ft::format::rows_of(tensor.shape);
    if (cols > 65536) continue;
    const auto matrix = ft::format::gguf_matrix(tensor.type, rows, cols, tensor.bytes.data(), true);
    std::vector<float> row(static_cast<std::size_t>(cols));
    matrix->read(rows - 1, 1, row.data());
  }
  return 0;
}
