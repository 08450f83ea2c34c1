#include "convert/recipe.h"

#include <algorithm>
#include <utility>

namespace ft::convert {
namespace {

using format::Quantisation;
using format::QuantMode;

constexpr Quantisation kEightBits{QuantMode::kAffine, 8, 64};

/// Two bits more than the base, of those widths that exist; block floats of 4 bits count as 4.
Quantisation for_embedding(const Quantisation& base) {
  if (base.bits >= 8) return base;
  const int bits = base.bits == 5 ? 8 : base.bits + 2;
  return {QuantMode::kAffine, std::min(bits, 8), base.mode == QuantMode::kAffine ? base.group : 64};
}

Quantisation default_format(const Recipe& recipe, TensorKind kind) {
  if (kind == TensorKind::kEmbedding) return for_embedding(recipe.base);
  return kind == TensorKind::kSmall ? kEightBits : recipe.base;
}

}  // namespace

Result<Recipe> uniform_recipe(const std::string& mode_name, std::optional<int> bits,
                              std::optional<int> group) {
  const std::optional<QuantMode> mode = format::find_quant_mode(mode_name);
  if (!mode) {
    return Error{Code::kInvalid,
                 "--format: expected affine, mxfp4, mxfp8 or nvfp4, found '" + mode_name + "'"};
  }
  Quantisation q = format::usual_quantisation(*mode);
  const auto refuse = [&](const std::string& flag, int asked, const std::string& known) {
    return Error{Code::kInvalid, flag + ": " + std::to_string(asked) + " does not exist in " + mode_name +
                                     ", which has " + known};
  };
  const bool affine = *mode == QuantMode::kAffine;
  if (bits && (affine ? !format::is_affine_width(*bits) : *bits != q.bits)) {
    return refuse("--bits", *bits, affine ? "2, 3, 4, 5, 6 and 8" : std::to_string(q.bits) + " bits");
  }
  if (group && (affine ? !format::is_affine_group(*group) : *group != q.group)) {
    return refuse("--group-size", *group,
                  affine ? "groups of 32, 64 and 128" : "groups of " + std::to_string(q.group));
  }
  q.bits = bits.value_or(q.bits), q.group = group.value_or(q.group);
  Recipe recipe;
  recipe.name = format::quantisation_text(q), recipe.base = q;
  return recipe;
}

std::optional<Quantisation> choose_format(const Recipe& recipe, const std::string& module, TensorKind kind,
                                          std::int64_t cols) {
  for (const Rule& rule : recipe.rules) {
    if (!std::regex_search(module, rule.match)) continue;
    return rule.q ? fitting_group(*rule.q, cols) : std::nullopt;
  }
  return fitting_group(default_format(recipe, kind), cols);
}

std::optional<Quantisation> fitting_group(Quantisation q, std::int64_t cols) {
  if (q.mode != QuantMode::kAffine) return cols % q.group == 0 ? std::optional(q) : std::nullopt;
  for (; q.group >= 32; q.group /= 2) {
    if (cols % q.group == 0) return q;
  }
  return std::nullopt;
}

std::string recipe_text(const Recipe& recipe) {
  std::string text = format::quantisation_text(recipe.base);
  for (const Rule& rule : recipe.rules) {
    text += "; " + rule.pattern + ": " + (rule.q ? format::quantisation_text(*rule.q) : "as stored");
  }
  if (recipe.keeps_codes) text = "codes of the source";
  text += "; mtp " + std::to_string(static_cast<int>(recipe.mtp));
  return text + "; vision " + std::to_string(static_cast<int>(recipe.vision));
}

}  // namespace ft::convert
