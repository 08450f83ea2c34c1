// POST /v1/chat/completions: a body as GenerateParams. Unknown members are ignored; errors name invalid ones.
// Source: OpenAI's API reference; extensions use the names of vLLM and llama.cpp. Images and audio are
// kUnsupported.
#pragma once

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

Result<GenerateParams> read_chat(const Json& body);

/// Converts OpenAI messages for the chat template: parts become {type: text}, and arguments are checked.
/// `path` names the list in errors.
Result<Json> read_messages(const Json& list, const std::string& path);
/// Converts one message; `path` names it in errors.
Result<Json> read_message(const Json& given, const std::string& path);
/// Converts one content: a text, or parts as {type: text}; null becomes an empty text.
Result<Json> read_content(const Json& content, const std::string& path);
/// Reads {type: json_object} or {type: json_schema, json_schema: {schema}}.
Status read_response_format(const Json& format, const std::string& path, GenerateParams& call);

}  // namespace ft::api
