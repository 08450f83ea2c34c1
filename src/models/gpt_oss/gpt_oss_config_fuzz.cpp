// Any two texts as config.json and generation_config.json (split at a zero byte) give an Error or a config
// whose numbers can be multiplied.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "models/gpt_oss/config.h"
#include "program/instructions.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(all.find('\0'), all.size());
  const auto files = ft::format::ConfigFiles::parse(all.substr(0, end), end < size ? all.substr(end + 1) : "",
                                                    "", "fuzz/config.json");
  if (!files.ok()) return 0;
  const auto config = ft::gpt_oss::Config::read(*files);
  if (!config.ok()) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  const ft::blocks::Sizes& sizes = config->sizes;
  const bool sound = config->windows.size() == static_cast<std::size_t>(sizes.layers) &&
                     sizes.heads % sizes.kv_heads == 0 && config->rope.rotary_dim == sizes.head_dim &&
                     config->experts <= ft::kMaxExperts && config->experts_per_token <= config->experts &&
                     config->swiglu_limit > 0;
  if (!sound) std::abort();
  return 0;
}
