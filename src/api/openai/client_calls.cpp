#include "api/openai/client_calls.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/fields.h"

namespace ft::api {
namespace {

constexpr std::array<ClientTool, 4> kClientTools{{
    {"tool_search", "tool_search_call", "tool_search_output", "tsc_", "arguments", "tools"},
    {"shell", "shell_call", "shell_call_output", "sh_", "action", "output"},
    {"local_shell", "local_shell_call", "local_shell_call_output", "lsh_", "action", "output"},
    {"apply_patch", "apply_patch_call", "apply_patch_call_output", "apc_", "operation", "output"},
}};

const ClientTool* find(std::string_view ClientTool::* member, std::string_view value) {
  const auto found =
      std::ranges::find_if(kClientTools, [&](const ClientTool& tool) { return tool.*member == value; });
  return found == kClientTools.end() ? nullptr : &*found;
}

Json described_as(const char* type, const char* description) {
  return Json{{"type", type}, {"description", description}};
}

Json texts(const char* description) {
  return Json{{"type", "array"}, {"items", {{"type", "string"}}}, {"description", description}};
}

/// Strict, so that a call always has the members of its item.
Json strict_function(std::string_view name, const char* description, Json properties, Json required) {
  return Json{{"name", name},
              {"description", description},
              {"parameters",
               {{"type", "object"},
                {"properties", std::move(properties)},
                {"required", std::move(required)},
                {"additionalProperties", false}}},
              {"strict", true}};
}

Json shell() {
  return strict_function(
      "shell", "Run commands in a shell and return their outputs.",
      {{"commands", texts("The commands, each a line for the shell")},
       {"timeout_ms", described_as("integer", "Milliseconds after which they are ended")},
       {"max_output_length", described_as("integer", "Maximum number of characters of each output")}},
      Json::array({"commands"}));
}

Json local_shell() {
  return strict_function("local_shell", "Run a program and return its output.",
                         {{"command", texts("The program and its arguments, such as [\"ls\", \"-l\"]")},
                          {"working_directory", described_as("string", "The folder to run it in")},
                          {"timeout_ms", described_as("integer", "Milliseconds after which it is ended")}},
                         Json::array({"command"}));
}

Json apply_patch() {
  const Json types{{"type", "string"},
                   {"enum", {"create_file", "update_file", "delete_file"}},
                   {"description", "What to do"}};
  return strict_function(
      "apply_patch", "Create, update or delete one file.",
      {{"type", types},
       {"path", described_as("string", "The path of the file")},
       {"diff", described_as("string",
                             "Lines that begin with +, - or a blank, after an @@ line if the file exists; "
                             "empty for delete_file")}},
      Json::array({"type", "path", "diff"}));
}

Result<std::optional<Json>> tool_search(const Fields& fields) {
  FT_ASSIGN(const auto execution, fields.word("execution", {"server", "client"}));
  FT_ASSIGN(const auto description, fields.text("description"));
  FT_ASSIGN(const Json* parameters, fields.object("parameters"));
  if (execution != "client") return std::optional<Json>();
  const Json paths{{"type", "object"},
                   {"properties", {{"paths", texts("The names of tools or of namespaces to load")}}},
                   {"required", Json::array({"paths"})}};
  return std::optional<Json>(Json{{"name", "tool_search"},
                                  {"description", description.value_or("Find and load tools.")},
                                  {"parameters", parameters != nullptr ? *parameters : paths}});
}

}  // namespace

const ClientTool* client_tool(std::string_view type) { return find(&ClientTool::type, type); }
const ClientTool* client_tool_of_call(std::string_view item_type) {
  return find(&ClientTool::call, item_type);
}
const ClientTool* client_tool_of_output(std::string_view item_type) {
  return find(&ClientTool::output, item_type);
}

Result<std::optional<Json>> client_tool_function(const Json& tool, const std::string& path) {
  const Fields fields(tool, path);
  FT_ASSIGN(const auto type, fields.text("type"));
  if (type == "tool_search") return tool_search(fields);
  if (type == "local_shell") return std::optional<Json>(local_shell());
  if (type == "apply_patch") return std::optional<Json>(apply_patch());
  if (type != "shell") return std::optional<Json>();
  FT_ASSIGN(const Json* environment, fields.object("environment"));
  if (environment == nullptr) return std::optional<Json>(shell());
  FT_ASSIGN(const auto place, Fields(*environment, fields.at("environment")).text("type"));
  return place == "local" ? std::optional<Json>(shell()) : std::nullopt;
}

Json client_call_members(const ClientTool& tool, Json arguments) {
  if (tool.type == "tool_search") {
    return Json{{"execution", "client"}, {tool.arguments, std::move(arguments)}};
  }
  if (tool.type == "local_shell") {
    Json action{{"type", "exec"}, {"env", Json::object()}};
    action.update(arguments);
    return Json{{tool.arguments, std::move(action)}};
  }
  if (arguments.value("type", Json()) == "delete_file") arguments.erase("diff");
  Json members{{tool.arguments, std::move(arguments)}};
  if (tool.type == "shell") members["environment"] = Json{{"type", "local"}};
  return members;
}

}  // namespace ft::api
