// The Lark grammar of tool calls in the model's own form. Names and parameters follow the request's tools in
// the order of the schema, and required parameters are always present. Strings are raw text up to
// </parameter>; an enumerated string is one of its values; all other values are JSON by their schema. Errors:
// invalid tools, an unknown name, a call form without a grammar.
#pragma once

#include <string>

#include "text/grammar.h"

namespace ft {

Result<std::string> tool_call_lark(const ToolCallRules& rules, const Tokenizer& tokenizer);

}  // namespace ft
