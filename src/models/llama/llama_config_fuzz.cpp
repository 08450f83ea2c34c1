// Any two texts as config.json and generation_config.json (split at a zero byte) give an Error or a config
// whose numbers can be multiplied.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "models/llama/config.h"
#include "program/instructions.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(all.find('\0'), all.size());
  const auto files = ft::format::ConfigFiles::parse(all.substr(0, end), end < size ? all.substr(end + 1) : "",
                                                    "", "fuzz/config.json");
  const auto match = files.ok() ? ft::read_config(*files) : ft::Result<ft::FamilyMatch>(files.error());
  if (!match.ok()) {
    if (match.error().message.empty()) std::abort();
    return 0;
  }
  const auto* config = dynamic_cast<const ft::llama::Config*>(match->config.get());
  if (config == nullptr) return 0;  // of another family
  const ft::blocks::Sizes& sizes = config->sizes;
  const bool sound =
      config->layers.size() == static_cast<std::size_t>(sizes.layers) && sizes.heads % sizes.kv_heads == 0 &&
      config->rope.rotary_dim == sizes.head_dim && sizes.head_dim % 2 == 0 && config->context > 0 &&
      config->moe.experts <= ft::kMaxExperts && config->moe.experts_per_token <= config->moe.experts;
  const auto frequencies = ft::blocks::inverse_frequencies(config->rope);
  if (!sound || frequencies.size() != static_cast<std::size_t>(config->rope.rotary_dim / 2)) std::abort();
  return 0;
}
