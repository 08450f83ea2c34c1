// The tools of a request in both OpenAI dialects, and which of them may be called. Functions and custom tools
// are offered to the model; hosted tools are left out and counted. Errors name the field. Source: OpenAI's
// API reference.
#pragma once

#include <string>

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

/// A function or custom tool as {name, description, parameters}; null for a tool of another service, which is
/// counted. Adds to custom_tools, text_formats and strict_tools of `call`.
Result<Json> read_tool(const Json& given, const std::string& path, GenerateParams& call);

/// Reads a list of tools or bare functions into `call`: tools, custom_tools, text_formats, strict_tools.
/// Returns the tools as {type: function, function}. `path` names the list.
Result<Json> read_tools(const Json& list, const std::string& path, GenerateParams& call);

/// tool_choice and parallel_tool_calls: auto, none, required; {type: function} and {type: custom} with a
/// name, nested as in chat or flat as in Responses, where it may have a namespace; the type of a tool that is
/// part of the client; {type: allowed_tools} in both forms. A hosted tool's type is auto.
Status read_tool_choice(const Fields& fields, const Json& tools, GenerateParams& call);

}  // namespace ft::api
