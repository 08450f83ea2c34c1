// Tools of Anthropic's API that the client runs and that have no input_schema, because hosted models know
// them: bash, text_editor, memory and computer with a date. Each becomes a function with its documented
// parameters. Source: Anthropic's API reference, "Tool use".
#pragma once

#include <optional>
#include <string_view>

#include "api/json.h"

namespace ft::api {

/// {name, description, parameters}; nullopt for types that the client does not run.
std::optional<Json> client_function(std::string_view type, const Json& tool);

}  // namespace ft::api
