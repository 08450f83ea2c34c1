#include "models/blocks/layer_types.h"

#include <nlohmann/json.hpp>
#include <string>

namespace ft::blocks {

std::optional<std::vector<bool>> read_sliding_layers(format::KeyReader& text, std::size_t layers) {
  constexpr const char* kKey = "layer_types";
  const nlohmann::json* types = text.find(kKey);
  if (types == nullptr) return std::nullopt;
  if (!types->is_array() || types->size() != layers) {
    text.fail(kKey, "a list of " + std::to_string(layers) + " types (num_hidden_layers)", types);
    return std::nullopt;
  }
  std::vector<bool> slides;
  for (const nlohmann::json& type : *types) {
    const auto* word = type.get_ptr<const std::string*>();
    slides.push_back(word != nullptr && *word == "sliding_attention");
    if (!slides.back() && (word == nullptr || *word != "full_attention")) {
      text.fail(kKey, "only 'full_attention' and 'sliding_attention'", &type);
      return std::nullopt;
    }
  }
  return slides;
}

}  // namespace ft::blocks
