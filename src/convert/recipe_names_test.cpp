#include "convert/recipe_names.h"

#include <gtest/gtest.h>

namespace ft::convert::recipe_names_test {
namespace {

using format::Quantisation;
using format::QuantMode;

std::optional<Quantisation> chosen(const Recipe& recipe, const std::string& module) {
  return choose_format(recipe, module, TensorKind::kLinear, 128);
}

TEST(RecipeNames, MixedRecipesChooseTheLayersOfMlxLm) {
  const Recipe recipe = *named_recipe("mixed-4-6", 16);
  const Quantisation low{QuantMode::kAffine, 4, 64}, high{QuantMode::kAffine, 6, 64};
  // Of 16 layers: the first two, the last two, and every third between.
  for (const int layer : {0, 1, 4, 7, 10, 13, 14, 15})
    EXPECT_EQ(chosen(recipe, "language_model.model.layers." + std::to_string(layer) + ".mlp.down_proj"), high)
        << layer;
  for (const int layer : {2, 3, 5, 6, 8, 12})
    EXPECT_EQ(chosen(recipe, "language_model.model.layers." + std::to_string(layer) + ".mlp.down_proj"), low)
        << layer;
  EXPECT_EQ(chosen(recipe, "language_model.model.layers.0.mlp.up_proj"), low);
  EXPECT_EQ(chosen(recipe, "language_model.lm_head"), high);
  EXPECT_EQ(chosen(recipe, "language_model.model.layers.0.linear_attn.out_proj"), low);
  EXPECT_EQ(chosen(*named_recipe("mixed-4-6+gdn", 16), "language_model.model.layers.0.linear_attn.out_proj"),
            high);
  EXPECT_FALSE(named_recipe("mixed", 16).ok());
}

TEST(RecipeNames, TheFirstRuleOfAFileCounts) {
  const Result<Recipe> recipe = parse_recipe(
      "format = \"affine\"\nbits = 3\n[[rule]]\nmatch = \"mlp\\\\.gate\"\nkeep = true\n"
      "[[rule]]\nmatch = \"mlp\"\nformat = \"mxfp4\"\n",
      "r.toml");
  ASSERT_TRUE(recipe.ok()) << recipe.error().message;
  EXPECT_EQ(chosen(*recipe, "layers.0.mlp.gate_proj"), std::nullopt);
  EXPECT_EQ(chosen(*recipe, "layers.0.mlp.up_proj"), (Quantisation{QuantMode::kMxfp4, 4, 32}));
  EXPECT_EQ(chosen(*recipe, "layers.0.self_attn.q_proj"), (Quantisation{QuantMode::kAffine, 3, 64}));
}

TEST(RecipeNames, WrongFilesAreNamedWithTheirLine) {
  const auto message = [](const std::string& text) { return parse_recipe(text, "r.toml").error().message; };
  EXPECT_NE(message("bits = 4\nbit = 4\n").find("r.toml:2"), std::string::npos);
  EXPECT_NE(message("[[rule]]\nmatch = \"(\"\n").find("a regular expression"), std::string::npos);
  EXPECT_NE(message("bits = 7\n").find("--bits: 7"), std::string::npos);
  EXPECT_NE(message("bits = \n").find("expected TOML"), std::string::npos);
}

}  // namespace
}  // namespace ft::convert::recipe_names_test
