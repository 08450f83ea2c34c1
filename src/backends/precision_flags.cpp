#include "backends/precision_flags.h"

#include <fmt/format.h>

namespace ft {

BackendFlag kv_bits_flag() {
  return {"kv-bits", "BITS", "16",
          "Precision of the KV cache on cpu and cuda: 16 (default) or 8 bits; 8 halves its memory, with more "
          "rounding error",
          [](const std::string& value) -> Status {
            if (value == "16" || value == "8") return {};
            return Error{Code::kInvalid, fmt::format("expected 16 or 8, found '{}'", value)};
          }};
}

int kv_bits(const BackendSettings& settings) { return settings.value("kv-bits", "16") == "8" ? 8 : 16; }

BackendFlag activations_flag() {
  return {
      "activations", "BITS", "auto",
      "Activation precision of cpu and cuda: auto (default), 8 or 16 bits; 16 is closer to float32, slower "
      "on cpu and in answers on cuda. On cpu, bf16 weights use bf16 at 8 and float32 at 16",
      [](const std::string& value) -> Status {
        if (value == "auto" || value == "8" || value == "16") return {};
        return Error{Code::kInvalid, fmt::format("expected auto, 8 or 16, found '{}'", value)};
      }};
}

int activation_bits(const BackendSettings& settings) {
  const std::string value = settings.value("activations", "auto");
  return value == "16" ? 16 : value == "8" ? 8 : 0;
}

}  // namespace ft
