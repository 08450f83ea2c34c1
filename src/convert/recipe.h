// Recipe: the format of each matrix. Rules come first, and the first match counts. Then come the defaults of
// the kinds of tensors: routers and small projections 8 bits in groups of 64, embedding and LM head two bits
// more than the base, everything else the base.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/names.h"
#include "format/quantisation.h"

namespace ft::convert {

struct Rule {
  std::string pattern;  // searched in MLX's module path
  std::regex match;
  std::optional<format::Quantisation> q;  // empty: as stored
};

/// Treatment of the MTP head: all as stored; its matrices in 8 bits, `fc` as stored; like the target; left
/// out.
enum class MtpHeadPrecision { kKeep, kEight, kSame, kDrop };
enum class VisionTreatment { kKeep, kDrop };

struct Recipe {
  std::string name;  // "affine 4 bits, groups of 64", "mixed-4-6", the file's name
  format::Quantisation base;
  std::vector<Rule> rules;
  bool keeps_codes = false;  // convert: no new codes where the source has some that MLX can read
  MtpHeadPrecision mtp = MtpHeadPrecision::kKeep;
  VisionTreatment vision = VisionTreatment::kKeep;
};

/// A uniform recipe. kInvalid for a width, group or mode that MLX does not have.
Result<Recipe> uniform_recipe(const std::string& mode, std::optional<int> bits, std::optional<int> group);

/// The format of a module of `cols` columns; empty: as stored. The group shrinks to one that divides the
/// columns, and a matrix that no group divides stays as stored.
std::optional<format::Quantisation> choose_format(const Recipe& recipe, const std::string& module,
                                                  TensorKind kind, std::int64_t cols);

/// `q` with the largest group that divides the columns; empty if there is none.
std::optional<format::Quantisation> fitting_group(format::Quantisation q, std::int64_t cols);

/// Everything that decides a result, as text.
std::string recipe_text(const Recipe& recipe);

}  // namespace ft::convert
