#include "api/openai/tools_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "api/openai/custom_tool.h"
#include "api/tool_name.h"
#include "api/tool_parameters.h"

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
  make_parameters_regular(function);
  const Fields fields(function, nested != nullptr ? path + ".function" : path);
  FT_TRY(read_tool_name(fields));
  FT_ASSIGN(const auto description, fields.text("description"));
  FT_ASSIGN(const Json* parameters, fields.object("parameters"));
  FT_ASSIGN(const auto strict, fields.boolean("strict"));
  (void)description, (void)parameters, (void)strict;  // types are checked here; the template uses the texts
  for (const char* member : {"type", "defer_loading", "allowed_callers"}) {  // not for the model
    if (nested == nullptr) function.erase(member);
  }
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

/// The offered name of the tool that the client calls `name`, in `space` or, without one, in any namespace.
Result<std::string> offered_name(const std::string& name, const std::optional<std::string>& space,
                                 const std::string& path, const Json& tools, const GenerateParams& call) {
  if (!space && is_offered(tools, name)) return name;
  std::vector<std::string> found;
  for (const auto& [offered, known] : call.call_names) {
    const bool same = known.client_tool.empty() && known.name == name;
    if (same && (!space || known.space == *space)) found.push_back(offered);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return wrong(path, fmt::format("no tool is called \"{}\"", name));
  return wrong(path,
               fmt::format("several namespaces have \"{}\"; use one of: {}", name, fmt::join(found, ", ")));
}

/// The named tool of a choice or of an allowed tool; `nested` is the member that holds the name in chat.
Result<std::string> named_tool(const Json& choice, const std::string& path, const char* nested,
                               const Json& tools, const GenerateParams& call) {
  FT_ASSIGN(const Json* inside, Fields(choice, path).object(nested));
  const Fields inner(inside != nullptr ? *inside : choice,
                     inside != nullptr ? fmt::format("{}.{}", path, nested) : path);
  FT_ASSIGN(const auto name, inner.text("name"));
  FT_ASSIGN(const auto space, inner.text("namespace"));
  if (!name) return wrong(inner.at("name"), "is missing");
  return offered_name(*name, space, inner.at("name"), tools, call);
}

/// The offered names of a tool that is part of the client, or of all tools in a namespace.
std::vector<std::string> offered_of_type(const std::string& type, const Json& choice,
                                         const GenerateParams& call) {
  std::vector<std::string> found;
  const Json space = type == "namespace" ? choice.value("name", Json()) : Json();
  for (const auto& [offered, known] : call.call_names) {
    if (type == "namespace" ? space == known.space : type == known.client_tool) found.push_back(offered);
  }
  return found;
}

/// {mode, tools}: nested in allowed_tools in chat, flat in Responses. Hosted tools cannot be called here;
/// if only they are allowed, no tool can be called.
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
    if (kind != "function" && kind != "custom") {
      for (std::string& name : offered_of_type(kind, one, call))
        call.allowed_tools.push_back(std::move(name));
      continue;
    }
    FT_ASSIGN(std::string name, named_tool(one, here, kind.c_str(), tools, call));
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

Status read_choice_word(const Fields& fields, const std::string& path, const Json& tools,
                        GenerateParams& call) {
  FT_ASSIGN(const auto word, fields.word("tool_choice", {"auto", "none", "required", "any"}));
  if (*word == "none") call.tool_choice = ToolChoice::kNone;
  if (*word != "required" && *word != "any") return {};  // "any": as Anthropic and Mistral write it
  call.tool_choice = ToolChoice::kRequired;
  if (tools.empty()) return wrong(path, "\"required\" needs at least one tool in tools");
  return {};
}

Status read_choice_object(const Json& choice, const std::string& path, const Json& tools,
                          GenerateParams& call) {
  FT_ASSIGN(const auto type, Fields(choice, path).text("type"));
  std::string kind = type.value_or(choice.contains("custom") ? "custom" : "function");
  if (kind == "tool") kind = "function";  // as Anthropic writes it, and the words as objects too
  if (kind == "auto" || kind == "none" || kind == "required" || kind == "any") {
    const Json word{{"tool_choice", kind}};
    return read_choice_word(Fields(word, ""), path, tools, call);
  }
  if (kind == "allowed_tools") return read_allowed_tools(choice, path, tools, call);
  if (kind == "function" || kind == "custom") {
    FT_ASSIGN(call.named_tool, named_tool(choice, path, kind.c_str(), tools, call));
  } else {
    const std::vector<std::string> own = offered_of_type(kind, choice, call);
    if (own.size() != 1 || kind == "namespace") return {};  // a hosted tool cannot run here
    call.named_tool = own.front();
  }
  call.tool_choice = ToolChoice::kNamed;
  return {};
}

}  // namespace

Result<Json> read_tool(const Json& given, const std::string& path, GenerateParams& call) {
  if (!given.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(given)));
  FT_ASSIGN(const auto type, Fields(given, path).text("type"));
  const std::string kind = type.value_or("function");
  if (kind != "function" && kind != "custom") {
    ++call.notes.skipped[kind];
    return Json();
  }
  Json function;
  if (kind == "custom") {
    FT_ASSIGN(function, add_custom_tool(given, path, call));
  } else {
    FT_ASSIGN(function, read_function(given, path));
  }
  call.strict_tools |= function.contains("strict") && function["strict"] == true;
  return function;
}

Result<Json> read_tools(const Json& list, const std::string& path, GenerateParams& call) {
  Json tools = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    FT_ASSIGN(Json function, read_tool(list[i], fmt::format("{}[{}]", path, i), call));
    if (function.is_null()) continue;
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
  return read_choice_word(fields, path, tools, call);
}

}  // namespace ft::api
