#include "models/gemma4/names.h"

namespace ft::gemma4 {
namespace {

// The most common spelling is first. Hugging Face, MLX, text-only exports, and the rest.
constexpr std::string_view kOfLmHead[] = {"", "language_model.", "model.language_model.", "model."};
constexpr std::string_view kOfTarget[] = {"model.language_model.", "language_model.model.", "model.",
                                          "language_model.", ""};

}  // namespace

const std::array<format::NamePrefixes, 2> kPrefixes = {{{"lm_head.", kOfLmHead}, {"", kOfTarget}}};

ExpertNames expert_names(const std::string& layer) {
  return {layer, layer + ".experts.", layer + ".experts.switch_glu.", layer + ".experts."};
}

}  // namespace ft::gemma4
