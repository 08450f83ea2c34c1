// The tools of a Messages request and which of them may be called. Tools with a schema and tools that the
// client runs are offered; hosted tools are left out and counted. tool_addition and tool_removal blocks of
// system messages change the list. Errors name the field. Source: Anthropic's API reference.
#pragma once

#include "api/anthropic/message_blocks.h"
#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

/// Reads `tools`, as `changes` leave them, and `tool_choice`.
Status read_anthropic_tools(const Fields& fields, const ToolChanges& changes, GenerateParams& call);

}  // namespace ft::api
