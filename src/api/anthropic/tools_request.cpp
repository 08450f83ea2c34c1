#include "api/anthropic/tools_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "api/anthropic/client_tools.h"
#include "api/anthropic/toolsets.h"
#include "api/tool_name.h"
#include "api/tool_parameters.h"

namespace ft::api {
namespace {

/// A function, or null for a tool that runs at another service.
Result<Json> read_tool(const Json& tool, const std::string& path, Notes& notes) {
  if (!tool.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(tool)));
  const Fields fields(tool, path);
  FT_ASSIGN(const auto type, fields.text("type"));
  if (type.value_or("custom") != "custom") {
    if (std::optional<Json> function = client_function(*type, tool)) {
      FT_TRY(check_tool_name(fields.at("name"), (*function)["name"].get<std::string>()));
      return std::move(*function);
    }
    ++notes.skipped[*type];
    return Json();
  }
  FT_ASSIGN(const std::string name, read_tool_name(fields));
  FT_ASSIGN(const auto description, fields.text("description"));
  FT_ASSIGN(const Json* schema, fields.object("input_schema"));
  if (schema == nullptr) return wrong(fields.at("input_schema"), "is missing; it is a JSON schema");
  FT_ASSIGN(const auto strict, fields.boolean("strict"));
  Json function{{"name", name}};
  if (description) function["description"] = *description;
  function["parameters"] = *schema;
  make_parameters_regular(function);
  if (strict.value_or(false)) function["strict"] = true;
  return function;
}

/// The tools as {type: function, function}, in the order of the request.
class Collector {
 public:
  explicit Collector(GenerateParams& call) : call_(call) {}

  /// `added`: a message adds the tool, and it may repeat a tool that the request offers.
  Status add(const Json& tool, const std::string& path, bool added) {
    const Json type = tool.is_object() ? tool.value("type", Json()) : Json();
    const auto family = type.is_string() ? toolset_family(type.get<std::string>()) : std::nullopt;
    if (family) return add_toolset(*family, tool, path);
    FT_ASSIGN(Json function, read_tool(tool, path, call_.notes));
    if (function.is_object() && !(added && has(function["name"]))) push(std::move(function));
    return {};
  }

  Json finish(const std::set<std::string>& removed) {
    const auto gone = [&](const Json& tool) {
      return removed.contains(tool["function"]["name"].get<std::string>());
    };
    tools_.erase(std::remove_if(tools_.begin(), tools_.end(), gone), tools_.end());
    return std::move(tools_);
  }

 private:
  Status add_toolset(const std::string& family, const Json& tool, const std::string& path) {
    FT_ASSIGN(std::vector<Json> members, toolset_members(family, tool, path));
    for (Json& function : members) {
      const std::string name = function["name"].get<std::string>(), offered = joined_name(family, name);
      if (has(offered)) continue;
      call_.call_names[offered] = {family, name, ""};
      function["name"] = offered;
      push(std::move(function));
    }
    return {};
  }

  bool has(const Json& name) const {
    return std::ranges::any_of(tools_, [&](const Json& tool) { return tool["function"]["name"] == name; });
  }
  void push(Json function) {
    tools_.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }

  GenerateParams& call_;
  Json tools_ = Json::array();
};

Result<Json> read_list(const Fields& fields, const ToolChanges& changes, GenerateParams& call) {
  Collector collector(call);
  FT_ASSIGN(const Json* given, fields.array("tools", kMaxTools));
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    FT_TRY(collector.add((*given)[i], fmt::format("tools[{}]", i), false));
  }
  for (const ToolChanges::Definition& added : changes.added) {
    FT_TRY(collector.add(added.tool, added.path, true));
  }
  Json tools = collector.finish(changes.removed);
  if (tools.size() <= kMaxTools) return tools;
  return wrong("tools", fmt::format("at most {} are allowed, found {}", kMaxTools, tools.size()));
}

/// {type: tool, name}: the name of a tool, of a toolset's member, or of a toolset. Any member of a toolset
/// may be called.
Status choose_tool(const std::string& name, const Json& tools, GenerateParams& call) {
  const auto offered = [&](const std::string& one) {
    return std::ranges::any_of(tools, [&](const Json& tool) { return tool["function"]["name"] == one; });
  };
  call.tool_choice = ToolChoice::kNamed, call.named_tool = name;
  if (offered(name)) return {};
  std::vector<std::string> members, family;
  for (const auto& [joined, known] : call.call_names) {
    if (!offered(joined)) continue;
    if (known.name == name) members.push_back(joined);
    if (known.space == name) family.push_back(joined);
  }
  if (members.size() == 1) {
    call.named_tool = members.front();
    return {};
  }
  if (members.empty()) members = std::move(family);
  if (members.empty()) return wrong("tool_choice.name", fmt::format("no tool is called \"{}\"", name));
  call.tool_choice = ToolChoice::kRequired, call.named_tool.clear();
  call.allowed_tools = std::move(members);
  return {};
}

}  // namespace

Status read_anthropic_tools(const Fields& fields, const ToolChanges& changes, GenerateParams& call) {
  FT_ASSIGN(const Json tools, read_list(fields, changes, call));
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
  return choose_tool(*name, tools, call);
}

}  // namespace ft::api
