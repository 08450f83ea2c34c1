// Any bytes as a GGUF file are refused or give tensors whose bytes can be decoded.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "convert/gguf/blocks.h"
#include "convert/gguf/container.h"
#include "convert/gguf/tokenizer.h"
#include "convert/source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = ft::convert::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz");
  if (!parsed.ok()) return 0;
  ft::convert::tokenizer_files(*parsed);
  for (const ft::convert::GgufTensor& tensor : parsed->tensors) {
    const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
    const std::int64_t rows = ft::convert::rows_of(tensor.shape);
    if (cols > 65536) continue;
    const auto matrix = ft::convert::gguf_matrix(tensor.type, rows, cols, tensor.bytes.data(), true);
    std::vector<float> row(static_cast<std::size_t>(cols));
    matrix->read(rows - 1, 1, row.data());
  }
  return 0;
}
