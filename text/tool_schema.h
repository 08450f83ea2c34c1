// ToolSchemas: which JSON type each parameter of each tool of a request has, and how the text that a model
// wrote for a parameter becomes JSON of that type. Owner: one request; shared by value (cheap: a pointer).
// Thread: const methods on any. Cost: parse is linear in the tools' JSON. Errors: parse() refuses what is not
// an array of tools. Source: mlx-lm's qwen3_coder tool parser, with the differences that chat templates'
// users expect (a string "null" stays a string unless null is allowed).
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

/// What a schema allows: null, then other types in the schema's order. Without any type it is a string.
struct ParameterType {
  std::vector<JsonType> types;
  bool null = false;

  /// Nothing but a string: its value needs no end to be shown.
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
  /// A parameter that no schema names is a string.
  const ParameterType& type_of(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, ParameterType, std::less<>>;

  std::shared_ptr<const std::map<std::string, Parameters, std::less<>>> tools_ =
      std::make_shared<const std::map<std::string, Parameters, std::less<>>>();
};

/// `text` as JSON of the first type that it fits; as a JSON string if it fits none.
std::string json_of_parameter(std::string_view text, const ParameterType& type);

/// Python's literals ({'a': True, 'b': None}) as JSON; empty if `text` is none.
std::string json_of_python_literal(std::string_view text);

}  // namespace ft
