// Tools of the Responses API that are part of the client: tool_search (execution: client), shell, local_shell
// and apply_patch. They have a type instead of a schema. The model sees a function of the type's name, and a
// call becomes the type's own item: tool_search_call, shell_call, local_shell_call, apply_patch_call. Pure;
// any thread. Source: OpenAI's API reference, Responses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/json.h"
#include "base/result.h"

namespace ft::api {

struct ClientTool {
  std::string_view type;       // also the name of the function
  std::string_view call;       // the type of a call's item
  std::string_view output;     // and of the item of its result
  std::string_view id_prefix;  // of a call's item
  const char* arguments;       // the member of a call that holds the model's text
  const char* result;          // the member of an output
};

/// The tool of this type; null for other types.
const ClientTool* client_tool(std::string_view type);
/// The tool whose calls, or whose outputs, are items of this type; null for other types.
const ClientTool* client_tool_of_call(std::string_view item_type);
const ClientTool* client_tool_of_output(std::string_view item_type);

/// The function that the model sees for an entry of `tools`; nullopt if the service runs the tool, as it does
/// for tool_search without execution: client and for shells in a container. Errors name the member.
Result<std::optional<Json>> client_tool_function(const Json& tool, const std::string& path);

/// The members of a call's item that depend on its arguments, which are an object by the function's schema.
Json client_call_members(const ClientTool& tool, Json arguments);

}  // namespace ft::api
