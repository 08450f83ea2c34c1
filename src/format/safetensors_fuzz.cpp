// Any bytes as a safetensors file give an Error or views inside the bytes, never anything else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "format/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto parsed = ft::format::parse_safetensors(file, "fuzz");
  if (!parsed.ok()) return parsed.error().message.empty() ? std::abort(), 0 : 0;
  unsigned sum = 0;
  for (const ft::format::TensorView& tensor : parsed->tensors) {
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
  }
  return sum == 0xFFFFFFFFU ? 1 : 0;
}
