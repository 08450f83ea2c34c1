#include "convert/recipe_names.h"

#include <algorithm>
#include <toml++/toml.h>
#include <utility>

namespace ft::convert {
namespace {

using format::Quantisation;
using format::QuantMode;

constexpr std::size_t kMaxRules = 4096;
constexpr std::size_t kMaxPatternBytes = 1024;

struct UniformRow {
  std::string_view name;
  Quantisation q;
};
constexpr UniformRow kUniform[] = {
    {"q2", {QuantMode::kAffine, 2, 64}},   {"q3", {QuantMode::kAffine, 3, 64}},
    {"q4", {QuantMode::kAffine, 4, 64}},   {"q4g32", {QuantMode::kAffine, 4, 32}},
    {"q5", {QuantMode::kAffine, 5, 64}},   {"q6", {QuantMode::kAffine, 6, 64}},
    {"q8", {QuantMode::kAffine, 8, 64}},   {"mxfp4", {QuantMode::kMxfp4, 4, 32}},
    {"mxfp8", {QuantMode::kMxfp8, 8, 32}}, {"nvfp4", {QuantMode::kNvfp4, 4, 16}},
};
struct MixedRow {
  std::string_view name;
  int low, high;
};
constexpr MixedRow kMixed[] = {
    {"mixed-2-6", 2, 6}, {"mixed-3-4", 3, 4}, {"mixed-3-6", 3, 6}, {"mixed-4-6", 4, 6}};

Rule make_rule(const std::string& pattern, std::optional<Quantisation> q) {
  return {pattern, std::regex(pattern, std::regex::ECMAScript | std::regex::optimize), q};
}

/// "3|7|9": the layers that mlx-lm gives more bits.
std::string chosen_layers(int layers) {
  std::string list;
  for (int i = 0; i < layers; ++i) {
    if (i >= layers / 8 && i < 7 * layers / 8 && (i - layers / 8) % 3 != 2) continue;
    list += (list.empty() ? "" : "|") + std::to_string(i);
  }
  return list;
}

Recipe mixed_recipe(const MixedRow& row, bool with_delta, int layers) {
  const Quantisation low{QuantMode::kAffine, row.low, 64}, high{QuantMode::kAffine, row.high, 64};
  Recipe recipe;
  recipe.name = std::string(row.name) + (with_delta ? "+gdn" : ""), recipe.base = low;
  std::string leaves = "v_proj|down_proj";
  if (with_delta) leaves += "|in_proj_qkv|out_proj|o_proj";
  recipe.rules.push_back(make_rule("layers\\.(" + chosen_layers(layers) + ")\\..*(" + leaves + ")$", high));
  recipe.rules.push_back(make_rule("lm_head$", high));
  recipe.rules.push_back(make_rule("embed_tokens$", low));
  return recipe;
}

class FileReader {
 public:
  explicit FileReader(const std::string& origin) : origin_(origin) {}

  Result<Recipe> read(const toml::table& root) {
    FT_TRY(check_keys(root, {"format", "bits", "group-size", "rule"}));
    FT_ASSIGN(Recipe recipe, read_format(root));
    recipe.name = origin_;
    const toml::node* rules = root.get("rule");
    if (rules == nullptr) return recipe;
    const toml::array* list = rules->as_array();
    if (list == nullptr || list->size() > kMaxRules) return wrong(*rules, "at most 4096 tables [[rule]]");
    for (const toml::node& entry : *list) {
      const toml::table* table = entry.as_table();
      if (table == nullptr) return wrong(entry, "a table [[rule]]");
      FT_ASSIGN(Rule rule, read_rule(*table));
      recipe.rules.push_back(std::move(rule));
    }
    return recipe;
  }

 private:
  Error wrong(const toml::node& node, const std::string& expected) const {
    return Error{Code::kInvalid,
                 origin_ + ":" + std::to_string(node.source().begin.line) + ": expected " + expected};
  }

  Status check_keys(const toml::table& table, std::initializer_list<std::string_view> known) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) == known.end())
        return wrong(node, "a known key, found '" + std::string(key.str()) + "'");
    }
    return {};
  }

  Result<Recipe> read_format(const toml::table& table) const {
    std::optional<int> bits, group;
    for (const auto& [key, target] : {std::pair("bits", &bits), std::pair("group-size", &group)}) {
      const toml::node* node = table.get(key);
      if (node == nullptr) continue;
      const auto number = node->value_exact<std::int64_t>();
      if (!number || *number < 0 || *number > 1024)
        return wrong(*node, "a small number for " + std::string(key));
      *target = static_cast<int>(*number);
    }
    const toml::node* mode = table.get("format");
    const auto name =
        mode == nullptr ? std::optional<std::string>("affine") : mode->value_exact<std::string>();
    if (!name) return wrong(*mode, "a name for format");
    Result<Recipe> recipe = uniform_recipe(*name, bits, group);
    if (recipe.ok()) return recipe;
    return Error{Code::kInvalid, origin_ + ": " + recipe.error().message};
  }

  Result<Rule> read_rule(const toml::table& table) const {
    FT_TRY(check_keys(table, {"match", "format", "bits", "group-size", "keep"}));
    const toml::node* match = table.get("match");
    const auto pattern = match == nullptr ? std::nullopt : match->value_exact<std::string>();
    if (!pattern || pattern->size() > kMaxPatternBytes) return wrong(table, "match, a regular expression");
    Rule rule;
    try {
      rule = make_rule(*pattern, std::nullopt);
    } catch (const std::regex_error& error) {
      return wrong(*match, std::string("a regular expression: ") + error.what());
    }
    if (const toml::node* keep = table.get("keep"); keep != nullptr) {
      if (keep->value_exact<bool>() != std::optional(true)) return wrong(*keep, "keep = true or no keep");
      return rule;
    }
    FT_ASSIGN(const Recipe chosen, read_format(table));
    rule.q = chosen.base;
    return rule;
  }

  const std::string& origin_;
};

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const UniformRow& row : kUniform) names.emplace_back(row.name);
  for (const MixedRow& row : kMixed) {
    names.emplace_back(row.name);
    names.push_back(std::string(row.name) + "+gdn");
  }
  return names;
}

Result<Recipe> named_recipe(const std::string& name, int layers) {
  for (const UniformRow& row : kUniform) {
    if (row.name != name) continue;
    Recipe recipe;
    recipe.name = name, recipe.base = row.q;
    return recipe;
  }
  for (const MixedRow& row : kMixed) {
    if (name == row.name) return mixed_recipe(row, false, layers);
    if (name == std::string(row.name) + "+gdn") return mixed_recipe(row, true, layers);
  }
  std::string known;
  for (const std::string& one : recipe_names()) known += (known.empty() ? "" : ", ") + one;
  return Error{Code::kInvalid,
               "--recipe: expected a .toml file or one of " + known + ", found '" + name + "'"};
}

Result<Recipe> parse_recipe(const std::string& text, const std::string& origin) {
  try {
    return FileReader(origin).read(toml::parse(text, origin));
  } catch (const toml::parse_error& error) {
    return Error{Code::kInvalid, origin + ":" + std::to_string(error.source().begin.line) +
                                     ": expected TOML: " + std::string(error.description())};
  }
}

}  // namespace ft::convert
