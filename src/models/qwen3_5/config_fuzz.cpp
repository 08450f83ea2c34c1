// Any three texts as config.json, generation_config.json and mtplx_runtime.json (split at zero bytes) give an
// Error or a config whose numbers can be multiplied.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "models/qwen3_5/config.h"
#include "program/instructions.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::size_t first = std::min(all.find('\0'), all.size());
  const std::size_t second = std::min(all.find('\0', first + 1), all.size());
  const auto files = ft::format::ConfigFiles::parse(
      all.substr(0, first), first < size ? all.substr(first + 1, second - first - 1) : "",
      second < size ? all.substr(second + 1) : "", "fuzz/config.json");
  const auto match = files.ok() ? ft::read_config(*files) : ft::Result<ft::FamilyMatch>(files.error());
  if (!match.ok()) {
    if (match.error().message.empty()) std::abort();
    return 0;
  }
  const auto* config = dynamic_cast<const ft::qwen3_5::Config*>(match->config.get());
  if (config == nullptr) return 0;  // of another family
  const bool sound = config->layer_types.size() == static_cast<std::size_t>(config->num_layers) &&
                     config->num_heads % config->num_kv_heads == 0 && config->qkv_rows() > 0 &&
                     config->rope.rotary_dim >= 2 && config->rope.rotary_dim <= config->head_dim &&
                     config->moe.experts >= 0 && config->moe.experts <= ft::kMaxExperts &&
                     (config->moe.experts == 0 || (config->moe.experts_per_token >= 1 &&
                                                   config->moe.experts_per_token <= config->moe.experts));
  if (!sound) std::abort();
  return 0;
}
