// Any two texts as config.json and generation_config.json (split at a zero byte), read as a config of this
// family, give an Error or a config whose numbers can be multiplied.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "models/gemma4/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::size_t split = std::min(all.find('\0'), all.size());
  const auto files = ft::format::ConfigFiles::parse(
      all.substr(0, split), split < size ? all.substr(split + 1) : "", "", "fuzz/config.json");
  if (!files.ok()) return 0;
  for (const char* type : {"gemma4", "gemma4_text"}) {
    const auto config = ft::gemma4::Config::read(*files, type);
    if (!config.ok()) {
      if (config.error().message.empty()) std::abort();
      continue;
    }
    if (config->layers.size() != static_cast<std::size_t>(config->num_layers)) std::abort();
    for (int i = 0; i < config->num_layers; ++i) {
      const ft::gemma4::LayerConfig& layer = config->layers[static_cast<std::size_t>(i)];
      const bool sound = config->num_heads % layer.kv_heads == 0 && layer.head_dim % 2 == 0 &&
                         layer.cache_source < i && layer.intermediate > 0;
      if (!sound) std::abort();
    }
  }
  return 0;
}
