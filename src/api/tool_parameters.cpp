#include "api/tool_parameters.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace ft::api {
namespace {

bool is_one_of(std::string_view key, auto words) {
  for (const std::string_view word : words) {
    if (key == word) return true;
  }
  return false;
}

/// Members that hold values, where null and [] mean themselves.
bool holds_values(std::string_view key) {
  return is_one_of(key, std::array{"enum", "const", "default", "examples", "example"});
}
/// Members that hold schemas by name.
bool holds_names(std::string_view key) {
  return is_one_of(key,
                   std::array{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"});
}
/// Members that hold one schema or a list of them, and that templates walk.
bool holds_schemas(std::string_view key) {
  return is_one_of(key, std::array{"items", "prefixItems", "anyOf", "oneOf", "allOf"});
}

bool is_empty_list(const Json& value) { return value.is_array() && value.empty(); }

bool is_left_out(std::string_view key, const Json& value) {
  if (value.is_null()) return key != "const" && key != "default";
  return is_empty_list(value) && holds_names(key);
}

/// Rebuilds an object, since erasing single members costs the square of their number.
void drop_left_out(Json::object_t& schema) {
  const auto left_out = [](const auto& member) { return is_left_out(member.first, member.second); };
  if (std::none_of(schema.begin(), schema.end(), left_out)) return;
  Json::object_t kept;
  for (auto& [key, value] : schema) {
    if (!is_left_out(key, value)) kept.emplace_back(key, std::move(value));
  }
  schema.swap(kept);
}

void open_up(Json& schema) {
  if (schema == true) schema = Json::object();
}

}  // namespace

void make_parameters_regular(Json& function) {
  const auto parameters = function.find("parameters");
  if (parameters == function.end()) return;
  if (is_empty_list(*parameters)) *parameters = Json::object();
  make_schema_regular(*parameters);
}

void make_schema_regular(Json& whole) {
  std::vector<Json*> schemas = {&whole};
  while (!schemas.empty()) {
    Json& schema = *schemas.back();
    schemas.pop_back();
    if (schema.is_array()) {
      for (Json& one : schema) schemas.push_back(&one);
    }
    if (!schema.is_object()) continue;
    drop_left_out(schema.get_ref<Json::object_t&>());
    for (auto& [key, value] : schema.items()) {
      if (holds_values(key)) continue;
      if (holds_schemas(key)) open_up(value);
      const bool names = holds_names(key) && value.is_object(), list = holds_schemas(key) && value.is_array();
      if (!names && !list) {
        schemas.push_back(&value);
        continue;
      }
      for (Json& one : value) {
        open_up(one);
        schemas.push_back(&one);
      }
    }
  }
}

}  // namespace ft::api
