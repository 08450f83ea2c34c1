#include "text/tool_schema.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
#include "text/json_text.h"
#include "text/tags.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxSchemaDepth = 100;
constexpr int kMaxSchemaVisits = 256;  // per parameter, through anyOf and "$ref"
constexpr int kMaxReferences = 8;      // chained "$ref"
constexpr int kMaxValueDepth = 100;    // per argument that is an object or array

void add_type(const std::string& name, ParameterType& out) {
  static const std::map<std::string, JsonType> kNames = {
      {"string", JsonType::kString},   {"integer", JsonType::kInteger}, {"number", JsonType::kNumber},
      {"boolean", JsonType::kBoolean}, {"object", JsonType::kObject},   {"array", JsonType::kArray}};
  if (name == "null") {
    out.null = true;
  } else if (const auto found = kNames.find(name); found != kNames.end()) {
    out.types.push_back(found->second);
  }
}

/// Follows "#/..." references in `root`; other references leave the schema unchanged.
const Json& resolved(const Json& schema, const Json& root) {
  const Json* at = &schema;
  for (int i = 0; i < kMaxReferences && at->is_object() && at->contains("$ref"); ++i) {
    const Json& reference = (*at)["$ref"];
    const std::string path = reference.is_string() ? reference.get<std::string>() : "";
    if (!path.starts_with("#/")) {
      break;
    }
    const Json* next = &root;
    for (size_t from = 2; from <= path.size() && next != nullptr;) {
      const size_t to = std::min(path.find('/', from), path.size());
      const auto child = next->is_object() ? next->find(path.substr(from, to - from)) : next->end();
      next = next->is_object() && child != next->end() ? &*child : nullptr;
      from = to + 1;
    }
    if (next == nullptr) {
      break;
    }
    at = next;
  }
  return *at;
}

/// `budget` bounds the visits because references may form cycles.
void collect_types(const Json& unresolved, const Json& root, ParameterType& out, int& budget) {
  const Json& schema = resolved(unresolved, root);
  if (!schema.is_object() || --budget < 0) {
    return;
  }
  if (schema.value("nullable", Json()) == true) {
    out.null = true;
  }
  const Json type = schema.value("type", Json());
  if (type.is_string()) {
    add_type(type.get<std::string>(), out);
  } else if (type.is_array()) {
    for (const Json& one : type) {
      add_type(one.is_string() ? one.get<std::string>() : "", out);
    }
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto members = schema.find(key);
    if (members != schema.end() && members->is_array()) {
      for (const Json& member : *members) {
        collect_types(member, root, out, budget);
      }
    }
  }
}

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(kTagSpace);
  return from == std::string_view::npos ? std::string_view{}
                                        : text.substr(from, text.find_last_not_of(kTagSpace) - from + 1);
}

std::optional<std::string> json_integer(std::string_view text) {
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  std::string_view digits = text.substr(sign);
  const size_t point = std::min(digits.find('.'), digits.size());
  const std::string_view fraction = digits.substr(std::min(point + 1, digits.size()));
  if (point < digits.size() &&
      (fraction.empty() || fraction.find_first_not_of('0') != std::string_view::npos)) {
    return std::nullopt;
  }
  digits = digits.substr(0, point);
  if (digits.empty() ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const bool negative = text[0] == '-' && digits != "0";
  return (negative ? "-" : "") + std::string(digits);
}

std::optional<std::string> json_number(std::string_view text) {
  if (const bool whole = text.find('.') == std::string_view::npos; whole) {
    if (auto integer = json_integer(text)) {
      return integer;
    }
  }
  const bool begins = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
  return begins && is_json(text, 1) ? std::optional<std::string>(text) : std::nullopt;
}

std::optional<std::string> json_boolean(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower == "true" || lower == "false" ? std::optional(lower) : std::nullopt;
}

std::optional<std::string> json_container(std::string_view text, char open) {
  if (text.starts_with(open) && is_json(text, kMaxValueDepth)) {
    return std::string(text);
  }
  std::string converted = json_of_python_literal(text);
  return converted.starts_with(open) ? std::optional(std::move(converted)) : std::nullopt;
}

std::optional<std::string> json_of_type(std::string_view text, JsonType type) {
  switch (type) {
    case JsonType::kInteger:
      return json_integer(text);
    case JsonType::kNumber:
      return json_number(text);
    case JsonType::kBoolean:
      return json_boolean(text);
    case JsonType::kObject:
      return json_container(text, '{');
    case JsonType::kArray:
      return json_container(text, '[');
    case JsonType::kString:
      break;
  }
  return std::nullopt;
}

}  // namespace

Result<ToolSchemas> ToolSchemas::parse(std::string_view tools_json) {
  ToolSchemas schemas;
  if (tools_json.empty()) {
    return schemas;
  }
  const Json tools =
      json_depth(tools_json) > kMaxSchemaDepth || tools_json.find('\0') != std::string_view::npos
          ? Json(Json::value_t::discarded)
          : read_json<Json>(tools_json);
  if (!tools.is_array() && !tools.is_null()) {
    return Error{Code::kInvalid, "tools must be a JSON array of {type, function}, nested at most " +
                                     std::to_string(kMaxSchemaDepth) + " levels deep"};
  }
  std::map<std::string, Parameters, std::less<>> all;
  for (const Json& tool : tools) {
    const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.value("name", Json()).is_string()) {
      return Error{Code::kInvalid,
                   "every tool needs a function with a name; see tools[" + std::to_string(all.size()) + "]"};
    }
    Parameters& parameters = all[function["name"].get<std::string>()];
    const Json schema = function.value("parameters", Json::object());
    const Json properties = schema.is_object() ? schema.value("properties", Json::object()) : Json::object();
    if (properties.is_object()) {
      for (const auto& [name, property] : properties.items()) {
        int budget = kMaxSchemaVisits;
        collect_types(property, schema, parameters[name], budget);
      }
    }
  }
  schemas.tools_ = std::make_shared<const std::map<std::string, Parameters, std::less<>>>(std::move(all));
  return schemas;
}

bool ToolSchemas::has_tool(std::string_view name) const { return tools_->find(name) != tools_->end(); }

const ParameterType& ToolSchemas::type_of(std::string_view tool, std::string_view parameter) const {
  static const ParameterType kText;
  const auto found = tools_->find(tool);
  if (found == tools_->end()) {
    return kText;
  }
  const auto type = found->second.find(parameter);
  return type == found->second.end() ? kText : type->second;
}

std::string json_of_parameter(std::string_view text, const ParameterType& type) {
  const std::string_view bare = trimmed(text);
  if (type.null && bare == "null") {
    return "null";
  }
  for (const JsonType one : type.types) {
    if (auto json = json_of_type(bare, one)) {
      return *json;
    }
  }
  return json_quoted(text);
}

}  // namespace ft
