// POST /v1/chat/completions: its body as a Call. Unknown members are ignored; wrong ones are named.
// Source: OpenAI's API reference; extensions as vLLM and llama.cpp name them. Pure. Thread: any.
// Cost: linear in the body. Errors: kInvalid and kUnsupported (images, audio) with the field.
#pragma once

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

Result<GenerateParams> read_chat(const Json& body);

/// OpenAI messages as the chat template wants them: parts as {type: text}, arguments checked.
/// `path` names the list in errors.
Result<Json> read_messages(const Json& list, const std::string& path);
/// One of them; `path` names it.
Result<Json> read_message(const Json& given, const std::string& path);
/// A content alone: a text, or parts as {type: text}; null is an empty text.
Result<Json> read_content(const Json& content, const std::string& path);
/// OpenAI tools (or bare functions) as a list of {type: function, function}; entries of other types are left
/// out.
Result<Json> read_tools(const Json& list, const std::string& path);
/// A function that says strict: true.
bool any_strict(const Json& tools);
/// tool_choice of OpenAI's chat: auto, none, required, {type: function, function: {name}}.
Status read_tool_choice(const Fields& fields, const Json& tools, GenerateParams& call);
/// Both kinds of a strict answer: {type: json_object}, {type: json_schema, json_schema: {schema}}.
Status read_response_format(const Json& format, const std::string& path, GenerateParams& call);

}  // namespace ft::api
