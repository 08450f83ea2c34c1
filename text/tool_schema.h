// ToolSchemas: the JSON type of each parameter of a request's tools, and the conversion of a model's text to
// JSON of that type. Sharing by value is cheap (one pointer). parse() refuses anything that is not an array
// of tools. Source: mlx-lm's qwen3_coder tool parser, with one difference that users of chat templates
// expect: a string "null" stays a string unless null is allowed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft {

enum class JsonType : uint8_t { kString, kInteger, kNumber, kBoolean, kObject, kArray };

/// The types that a schema allows: null, then other types in the schema's order. A schema without a type is a
/// string.
struct ParameterType {
  std::vector<JsonType> types;
  bool null = false;

  /// True if only a string is allowed: its value can be shown before it ends.
  bool is_plain_string() const {
    return !null && (types.empty() || (types.size() == 1 && types[0] == JsonType::kString));
  }
};

class ToolSchemas {
 public:
  /// `tools_json` is the request's array of {type, function: {name, parameters}} (or of bare functions);
  /// empty for none.
  static Result<ToolSchemas> parse(std::string_view tools_json);

  bool has_tool(std::string_view name) const;
  /// A parameter without a schema is a string.
  const ParameterType& type_of(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, ParameterType, std::less<>>;

  std::shared_ptr<const std::map<std::string, Parameters, std::less<>>> tools_ =
      std::make_shared<const std::map<std::string, Parameters, std::less<>>>();
};

/// `text` as JSON of the first type that matches, or else as a JSON string.
std::string json_of_parameter(std::string_view text, const ParameterType& type);

/// Converts Python literals ({'a': True, 'b': None}) to JSON; empty if `text` is not a literal.
std::string json_of_python_literal(std::string_view text);

}  // namespace ft
