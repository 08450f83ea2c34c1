#include "models/head_layer.h"

#include <charconv>

namespace ft {

std::string name_of_head_layer(std::string_view stored, int layers) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = stored.find(kLayers);
  if (at == std::string_view::npos || format::is_mtp_name(stored)) return std::string(stored);
  const char* const first = stored.data() + at + kLayers.size();
  const char* const last = stored.data() + stored.size();
  int layer = 0;
  const auto [end, failed] = std::from_chars(first, last, layer);
  if (failed != std::errc() || end == last || *end != '.' || layer < layers) return std::string(stored);
  const std::string_view rest(end + 1, static_cast<std::size_t>(last - end - 1));
  if (layer > layers || rest.starts_with("embed_tokens.") || rest.starts_with("shared_head.head.")) return "";
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"eh_proj.", "mtp.fc."},
      {"enorm.", "mtp.pre_fc_norm_embedding."},
      {"hnorm.", "mtp.pre_fc_norm_hidden."},
      {"shared_head.norm.", "mtp.norm."}};
  for (const auto& [begin, own] : kNames) {
    if (rest.starts_with(begin)) return std::string(own) + std::string(rest.substr(begin.size()));
  }
  return "mtp.layers.0." + std::string(rest);
}

void name_head_layer(format::Checkpoint& checkpoint, int layers) {
  const bool sidecar = checkpoint.mtp_is_sidecar();
  checkpoint.rename([&](std::string_view stored) {
    std::string name = name_of_head_layer(stored, layers);
    return sidecar && name != stored ? std::string() : name;
  });
}

}  // namespace ft
