#include "text/tool_schema.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/ascii.h"
#include "base/json.h"
#include "text/json_text.h"
#include "text/schema_graph.h"
#include "text/tags.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxSchemaDepth = 100;
constexpr int kMaxValueDepth = 100;  // per argument that is an object or array

std::string_view trimmed_name(std::string_view text) {
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
  const std::string word = lower(text);
  return word == "true" || word == "false" ? std::optional(word) : std::nullopt;
}

std::optional<std::string> json_container(std::string_view text, char open) {
  if (text.starts_with(open) && is_json(text, kMaxValueDepth)) {
    return std::string(text);
  }
  std::string converted = json_of_python_literal(text);
  return converted.starts_with(open) ? std::optional(std::move(converted)) : std::nullopt;
}

std::optional<std::string> json_of_kind(std::string_view text, JsonKind kind) {
  switch (kind) {
    case JsonKind::kInteger:
      return json_integer(text);
    case JsonKind::kNumber:
      return json_number(text);
    case JsonKind::kBoolean:
      return json_boolean(text);
    case JsonKind::kObject:
      return json_container(text, '{');
    case JsonKind::kArray:
      return json_container(text, '[');
    case JsonKind::kNull:
    case JsonKind::kString:
      break;
  }
  return std::nullopt;
}

/// True if `text` is JSON, but no string, that follows the type.
bool is_value(std::string_view text, const ParameterType& type) {
  if (text.starts_with('"') || !is_json(text, kMaxValueDepth)) return false;
  return type.fits(read_json<Json>(text));
}

}  // namespace

/// The schema of a tool is read when an answer calls it: a request may offer thousands.
struct ToolSchemas::Tools {
  struct Tool {
    Json parameters;
    mutable std::once_flag once;
    mutable SchemaGraph read;

    const SchemaGraph& graph() const {
      std::call_once(once, [this] { read = SchemaGraph::build(parameters, true); });
      return read;
    }
  };
  std::map<std::string, Tool, std::less<>> all;

  const SchemaGraph* find(std::string_view name) const {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : &found->second.graph();
  }
};

ToolSchemas::ToolSchemas() : tools_(std::make_shared<const Tools>()) {}

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
  auto read = std::make_shared<Tools>();
  for (const Json& tool : tools) {
    const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.value("name", Json()).is_string()) {
      return Error{Code::kInvalid, "every tool needs a function with a name; see tools[" +
                                       std::to_string(read->all.size()) + "]"};
    }
    const auto parameters = function.find("parameters");
    static const Json kNoParameters = Json::object();
    const bool given = parameters != function.end() && (parameters->is_object() || parameters->is_boolean());
    read->all[function["name"].get<std::string>()].parameters = given ? *parameters : kNoParameters;
  }
  schemas.tools_ = std::move(read);
  return schemas;
}

bool ToolSchemas::empty() const { return tools_->all.empty(); }

bool ToolSchemas::has_tool(std::string_view name) const { return tools_->all.contains(name); }

namespace {

/// The nodes that a parameter of this name may follow.
void add_nodes(const SchemaShape& shape, std::string_view parameter, std::vector<int>& nodes) {
  const auto property = std::ranges::find(shape.properties, parameter, &SchemaShape::Property::name);
  if (property != shape.properties.end()) {
    nodes.push_back(property->node);
    return;
  }
  for (const auto& [pattern, node] : shape.patterns) nodes.push_back(node);
  nodes.push_back(shape.rest);
}

}  // namespace

ParameterType ToolSchemas::type_of(std::string_view tool, std::string_view parameter) const {
  const SchemaGraph* const found = tools_->find(tool);
  if (found == nullptr) return {};
  const SchemaGraph& graph = *found;
  std::vector<int> nodes;
  for (const SchemaShape& shape : graph.node(graph.root()).shapes) add_nodes(shape, parameter, nodes);
  std::erase(nodes, SchemaShape::kNever);
  return {graph, std::move(nodes)};
}

size_t ToolSchemas::alternatives(std::string_view tool) const {
  const SchemaGraph* const graph = tools_->find(tool);
  return graph == nullptr ? 0 : graph->node(graph->root()).shapes.size();
}

ParameterType ToolSchemas::type_of(std::string_view tool, std::string_view parameter,
                                   size_t alternative) const {
  const SchemaGraph& graph = *tools_->find(tool);
  std::vector<int> nodes;
  add_nodes(graph.node(graph.root()).shapes.at(alternative), parameter, nodes);
  std::erase(nodes, SchemaShape::kNever);
  return {graph, std::move(nodes)};
}

bool ToolSchemas::fits(std::string_view tool, size_t alternative, const Json& arguments) const {
  const SchemaGraph& graph = *tools_->find(tool);
  return graph.fits(arguments, graph.node(graph.root()).shapes.at(alternative));
}

bool ParameterType::is_anything() const {
  return nodes_.empty() || std::ranges::any_of(nodes_, [&](int id) { return graph_->node(id).anything; });
}

bool ParameterType::is_plain_string() const {
  const auto plain = [&](int id) {
    const SchemaNode& node = graph_->node(id);
    const auto is_text = [](const SchemaShape& shape) { return shape.kind == JsonKind::kString; };
    return node.anything || (std::ranges::all_of(node.shapes, is_text) &&
                             std::ranges::all_of(node.literals, &Json::is_string));
  };
  return std::ranges::all_of(nodes_, plain);
}

bool ParameterType::allows(JsonKind kind) const {
  if (nodes_.empty()) return kind == JsonKind::kString;
  return std::ranges::any_of(nodes_, [&](int id) { return graph_->node(id).allows(kind); });
}

bool ParameterType::fits(const Json& value) const {
  if (nodes_.empty()) return value.is_string();
  return std::ranges::any_of(nodes_, [&](int id) { return graph_->fits(value, id); });
}

bool ParameterType::fits_better(const Json& text, const Json& value) const {
  bool better = false;
  for (const int id : nodes_) {
    if (graph_->fits(text, id)) {
      better = better || !graph_->fits(value, id);
    } else if (graph_->fits(value, id)) {
      return false;
    }
  }
  return better;
}

std::string json_of_parameter(std::string_view text, const ParameterType& type) {
  const std::string_view bare = trimmed_name(text);
  if (type.is_plain_string()) return json_quoted(text);
  if (is_value(bare, type) && !type.fits_better(std::string(text), read_json<Json>(bare))) {
    const bool whole = type.allows(JsonKind::kInteger) && !type.allows(JsonKind::kNumber);
    if (auto integer = whole ? json_integer(bare) : std::nullopt) return *integer;
    return std::string(bare);
  }
  if (type.fits(std::string(text))) return json_quoted(text);
  if (bare == "null" && type.allows(JsonKind::kNull)) return "null";
  for (const JsonKind kind :
       {JsonKind::kInteger, JsonKind::kNumber, JsonKind::kBoolean, JsonKind::kObject, JsonKind::kArray}) {
    if (!type.allows(kind)) continue;
    if (auto json = json_of_kind(bare, kind)) return *json;
  }
  return json_quoted(text);
}

std::string cut_json_of_parameter(std::string_view text, const ParameterType& type) {
  const std::string_view begun = text.substr(std::min(text.find_first_not_of(kTagSpace), text.size()));
  if (begun.empty()) return {};
  if (!type.allows(JsonKind::kString)) return std::string(begun);
  const bool value = std::string_view("{[-0123456789tfn").find(begun[0]) != std::string_view::npos;
  if (value && !type.is_plain_string()) return {};
  std::string open = json_quoted(text);
  open.pop_back();
  return open;
}

}  // namespace ft
