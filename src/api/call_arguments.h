// The arguments of a tool call in a conversation, in all dialects: an object, or its text as the model wrote
// it. Clients in Go, C# and PHP write "null" or "[]" for a call without arguments, and a call cut by
// max_tokens has unfinished text, so every text is accepted.
#pragma once

#include <string>

#include "api/json.h"
#include "base/result.h"

namespace ft::api {

/// Null, an empty list, and their texts mean a call without arguments. Text that is not an object becomes the
/// member "arguments", so that the model reads the original text. kInvalid for other values, with `path`.
Result<Json> read_arguments(const Json* given, const std::string& path);

}  // namespace ft::api
