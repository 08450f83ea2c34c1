// ToolSchemas: the schemas of a request's tools, and the conversion of a model's text to JSON that follows
// them. Sharing by value is cheap (one pointer). parse() refuses anything that is not an array of tools; a
// schema that makes no sense lets its parameters be text. Values keep their text: it stays a string where the
// schema allows one and it is not JSON of another allowed kind.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft {

class SchemaGraph;
enum class JsonKind : uint8_t;

/// The allowed kinds of a parameter. Valid as long as its ToolSchemas.
class ParameterType {
 public:
  ParameterType() = default;
  ParameterType(const SchemaGraph& graph, std::vector<int> nodes)
      : graph_(&graph), nodes_(std::move(nodes)) {}

  /// True if the value is a string whatever is written: it can be shown before it ends.
  bool is_plain_string() const;
  /// True if the schema has no constraint.
  bool is_anything() const;
  bool allows(JsonKind kind) const;
  bool fits(const nlohmann::ordered_json& value) const;
  /// True if `text` fits every alternative that `value` fits, and at least one more.
  bool fits_better(const nlohmann::ordered_json& text, const nlohmann::ordered_json& value) const;

 private:
  const SchemaGraph* graph_ = nullptr;
  std::vector<int> nodes_;  // one for each alternative of the parameters; none: unknown
};

class ToolSchemas {
 public:
  ToolSchemas();  // without tools
  /// `tools_json` is the request's array of {type, function: {name, parameters}} (or of bare functions);
  /// empty for none.
  static Result<ToolSchemas> parse(std::string_view tools_json);

  bool empty() const;
  bool has_tool(std::string_view name) const;
  /// A parameter without a schema is a string.
  ParameterType type_of(std::string_view tool, std::string_view parameter) const;

  /// Alternatives of the tool's parameters (anyOf or oneOf of objects); usually 1.
  size_t alternatives(std::string_view tool) const;
  /// The same as type_of() above, in one alternative.
  ParameterType type_of(std::string_view tool, std::string_view parameter, size_t alternative) const;
  /// True if the arguments follow that alternative.
  bool fits(std::string_view tool, size_t alternative, const nlohmann::ordered_json& arguments) const;

 private:
  struct Tools;

  std::shared_ptr<const Tools> tools_;
};

/// `text` as JSON that follows the type if it can be read as such, otherwise as a JSON string.
std::string json_of_parameter(std::string_view text, const ParameterType& type);

/// The same for a text that was cut: the beginning of the JSON, or nothing if its kind is unknown.
std::string cut_json_of_parameter(std::string_view text, const ParameterType& type);

/// Converts Python literals ({'a': True, 'b': None}) to JSON; empty if `text` is not a literal.
std::string json_of_python_literal(std::string_view text);

}  // namespace ft
