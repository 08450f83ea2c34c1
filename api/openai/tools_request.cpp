#include "api/openai/tools_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/openai/custom_tool.h"

namespace ft::api {
namespace {

bool is_offered(const Json& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(),
                     [&](const Json& tool) { return tool["function"]["name"] == name; });
}

/// A function of {type: function, function}, of the flat form, or a bare one.
Result<Json> read_function(const Json& given, const std::string& path) {
  FT_ASSIGN(const Json* nested, Fields(given, path).object("function"));
  Json function = nested != nullptr ? *nested : given;
  const Fields fields(function, nested != nullptr ? path + ".function" : path);
  FT_ASSIGN(const auto name, fields.text("name"));
  if (!name || name->empty()) {
    return wrong(fields.at("name"), "is missing; each tool has a function with a name");
  }
  FT_ASSIGN(const auto description, fields.text("description"));
  FT_ASSIGN(const Json* parameters, fields.object("parameters"));
  FT_ASSIGN(const auto strict, fields.boolean("strict"));
  (void)description, (void)parameters, (void)strict;  // types are checked here; the template uses the texts
  if (nested == nullptr) function.erase("type");
  return function;
}

Result<Json> add_custom_tool(const Json& given, const std::string& path, GenerateParams& call) {
  FT_ASSIGN(CustomTool custom, read_custom_tool(given, path));
  const auto name = custom.function["name"].get<std::string>();
  call.custom_tools.insert(name);
  if (!custom.format.syntax.empty()) {
    call.text_formats.push_back({name, std::move(custom.format), std::move(custom.format_field)});
  }
  return std::move(custom.function);
}

/// The named tool of a choice or of an allowed tool; `nested` is the member that holds the name in chat.
Result<std::string> named_tool(const Json& choice, const std::string& path, const char* nested,
                               const Json& tools) {
  FT_ASSIGN(const Json* inside, Fields(choice, path).object(nested));
  const Fields inner(inside != nullptr ? *inside : choice,
                     inside != nullptr ? fmt::format("{}.{}", path, nested) : path);
  FT_ASSIGN(const auto name, inner.text("name"));
  if (!name) return wrong(inner.at("name"), "is missing");
  if (!is_offered(tools, *name)) {
    return wrong(inner.at("name"), fmt::format("no tool is called \"{}\"", *name));
  }
  return *name;
}

/// {mode, tools}: nested in allowed_tools in chat, flat in Responses. Hosted tools cannot be called here;
/// where only they are allowed, none is.
Status read_allowed_tools(const Json& choice, const std::string& path, const Json& tools,
                          GenerateParams& call) {
  FT_ASSIGN(const Json* nested, Fields(choice, path).object("allowed_tools"));
  const Fields fields(nested != nullptr ? *nested : choice,
                      nested != nullptr ? path + ".allowed_tools" : path);
  FT_ASSIGN(const auto mode, fields.word("mode", {"auto", "required"}));
  FT_ASSIGN(const Json* list, fields.array("tools", kMaxTools));
  if (list == nullptr) return wrong(fields.at("tools"), "is missing; list the tools that may be called");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& one = (*list)[i];
    const std::string here = fmt::format("{}[{}]", fields.at("tools"), i);
    if (!one.is_object()) return wrong(here, fmt::format("must be an object, found {}", kind_of(one)));
    FT_ASSIGN(const auto type, Fields(one, here).text("type"));
    const std::string kind = type.value_or("function");
    if (kind != "function" && kind != "custom") continue;
    FT_ASSIGN(std::string name, named_tool(one, here, kind.c_str(), tools));
    call.allowed_tools.push_back(std::move(name));
  }
  const bool required = mode == "required";
  if (required && call.allowed_tools.empty()) {
    return wrong(fields.at("tools"), "\"required\" needs at least one function or custom tool");
  }
  call.tool_choice = required                     ? ToolChoice::kRequired
                     : call.allowed_tools.empty() ? ToolChoice::kNone
                                                  : ToolChoice::kAuto;
  return {};
}

Status read_choice_object(const Json& choice, const std::string& path, const Json& tools,
                          GenerateParams& call) {
  FT_ASSIGN(const auto type, Fields(choice, path).text("type"));
  const std::string kind = type.value_or(choice.contains("custom") ? "custom" : "function");
  if (kind == "allowed_tools") return read_allowed_tools(choice, path, tools, call);
  if (kind != "function" && kind != "custom") return {};  // a hosted tool cannot run here
  FT_ASSIGN(call.named_tool, named_tool(choice, path, kind.c_str(), tools));
  call.tool_choice = ToolChoice::kNamed;
  return {};
}

}  // namespace

Result<Json> read_tools(const Json& list, const std::string& path, GenerateParams& call) {
  Json tools = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", path, i);
    const Json& given = list[i];
    if (!given.is_object()) return wrong(here, fmt::format("must be an object, found {}", kind_of(given)));
    FT_ASSIGN(const auto type, Fields(given, here).text("type"));
    const std::string kind = type.value_or("function");
    if (kind != "function" && kind != "custom") {  // hosted, or a namespace
      ++call.notes.skipped[kind];
      continue;
    }
    Json function;
    if (kind == "custom") {
      FT_ASSIGN(function, add_custom_tool(given, here, call));
    } else {
      FT_ASSIGN(function, read_function(given, here));
    }
    call.strict_tools |= function.contains("strict") && function["strict"] == true;
    tools.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  if (!tools.empty()) call.tools = dump(tools);
  return tools;
}

Status read_tool_choice(const Fields& fields, const Json& tools, GenerateParams& call) {
  FT_ASSIGN(const auto parallel, fields.boolean("parallel_tool_calls"));
  call.parallel_tools = parallel.value_or(true);
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return {};
  const std::string path = fields.at("tool_choice");
  if (choice->is_object()) return read_choice_object(*choice, path, tools, call);
  if (!choice->is_string()) {
    return wrong(path, fmt::format("must be a string or an object, found {}", kind_of(*choice)));
  }
  FT_ASSIGN(const auto word, fields.word("tool_choice", {"auto", "none", "required"}));
  if (*word == "none") call.tool_choice = ToolChoice::kNone;
  if (*word != "required") return {};
  call.tool_choice = ToolChoice::kRequired;
  if (tools.empty()) return wrong(path, "\"required\" needs at least one tool in tools");
  return {};
}

}  // namespace ft::api
