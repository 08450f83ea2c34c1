// Recipes by name and from TOML files. Names: q2 q3 q4 q4g32 q5 q6 q8 mxfp4 mxfp8 nvfp4; mixed-2-6,
// mixed-3-4, mixed-3-6 and mixed-4-6, which choose the same matrices as mlx-lm's recipes of those names;
// "+gdn" after a mixed name treats in_proj_qkv, out_proj and o_proj like its other chosen matrices. A file
// has the keys format, bits and group-size and [[rule]] tables: match (a regular expression, searched in
// MLX's module path), and format, bits, group-size or keep = true; the first rule that matches counts.
// Errors: kInvalid with the file, the line and the expected value. Source: mixed_quant_predicate_builder of
// mlx-lm.
#pragma once

#include <string>
#include <vector>

#include "convert/recipe.h"

namespace ft::convert {

std::vector<std::string> recipe_names();

/// A named recipe for a model of `layers` layers.
Result<Recipe> named_recipe(const std::string& name, int layers);

/// `origin` begins every message.
Result<Recipe> parse_recipe(const std::string& text, const std::string& origin);

}  // namespace ft::convert
