#include "api/anthropic/tools_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/anthropic/client_tools.h"

namespace ft::api {
namespace {

/// A function, or null for a tool that runs at another service.
Result<Json> read_tool(const Json& tool, const std::string& path, Notes& notes) {
  if (!tool.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(tool)));
  const Fields fields(tool, path);
  FT_ASSIGN(const auto type, fields.text("type"));
  if (type.value_or("custom") != "custom") {
    if (std::optional<Json> function = client_function(*type, tool)) return std::move(*function);
    ++notes.skipped[*type];
    return Json();
  }
  FT_ASSIGN(const auto name, fields.text("name"));
  if (!name || name->empty()) return wrong(fields.at("name"), "is missing; each tool has a name");
  FT_ASSIGN(const auto description, fields.text("description"));
  FT_ASSIGN(const Json* schema, fields.object("input_schema"));
  if (schema == nullptr) return wrong(fields.at("input_schema"), "is missing; it is a JSON schema");
  FT_ASSIGN(const auto strict, fields.boolean("strict"));
  Json function{{"name", *name}};
  if (description) function["description"] = *description;
  function["parameters"] = *schema;
  if (strict.value_or(false)) function["strict"] = true;
  return function;
}

Result<Json> read_list(const Fields& fields, const ToolChanges& changes, Notes& notes) {
  Json tools = Json::array();
  const auto add = [&tools](Json function) {
    const bool known = std::ranges::any_of(
        tools, [&](const Json& tool) { return tool["function"]["name"] == function["name"]; });
    if (!known) tools.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  };
  FT_ASSIGN(const Json* given, fields.array("tools", kMaxTools));
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    FT_ASSIGN(Json function, read_tool((*given)[i], fmt::format("tools[{}]", i), notes));
    if (function.is_object()) tools.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  for (const ToolChanges::Definition& added : changes.added) {
    FT_ASSIGN(Json function, read_tool(added.tool, added.path, notes));
    if (function.is_object()) add(std::move(function));
  }
  const auto removed = [&](const Json& tool) {
    return changes.removed.contains(tool["function"]["name"].get<std::string>());
  };
  tools.erase(std::remove_if(tools.begin(), tools.end(), removed), tools.end());
  if (tools.size() <= kMaxTools) return tools;
  return wrong("tools", fmt::format("at most {} are allowed, found {}", kMaxTools, tools.size()));
}

}  // namespace

Status read_anthropic_tools(const Fields& fields, const ToolChanges& changes, GenerateParams& call) {
  FT_ASSIGN(const Json tools, read_list(fields, changes, call.notes));
  if (!tools.empty()) call.tools = dump(tools);
  call.strict_tools =
      std::ranges::any_of(tools, [](const Json& tool) { return tool["function"].contains("strict"); });
  FT_ASSIGN(const Json* choice, fields.object("tool_choice"));
  if (choice == nullptr) return {};
  const Fields inner(*choice, "tool_choice");
  FT_ASSIGN(const auto type, inner.word("type", {"auto", "any", "tool", "none"}));
  if (!type) return wrong("tool_choice.type", "is missing; use auto, any, tool or none");
  FT_ASSIGN(const auto lone, inner.boolean("disable_parallel_tool_use"));
  call.parallel_tools = !lone.value_or(false);
  if (*type == "none") call.tool_choice = ToolChoice::kNone;
  if (*type == "any") call.tool_choice = ToolChoice::kRequired;
  if (*type == "any" && tools.empty()) {
    return wrong("tool_choice", "\"any\" needs at least one tool with an input_schema in tools");
  }
  if (*type != "tool") return {};
  FT_ASSIGN(const auto name, inner.text("name"));
  if (!name) return wrong("tool_choice.name", "is missing");
  call.tool_choice = ToolChoice::kNamed, call.named_tool = *name;
  const bool known =
      std::ranges::any_of(tools, [&](const Json& tool) { return tool["function"]["name"] == *name; });
  if (!known) return wrong("tool_choice.name", fmt::format("no tool is called \"{}\"", *name));
  return {};
}

}  // namespace ft::api
