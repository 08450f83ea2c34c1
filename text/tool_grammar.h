// The Lark grammar of tool calls in a model's own form: names and parameters as the request's tools declare
// them, in the order of the schema, required ones always. Strings are raw text up to </parameter>, one of an
// enumeration is one of its values; everything else is JSON by its schema. Pure; any thread; linear in the
// tools. Errors: tools that are no list, a name that is not offered, a form without a grammar.
#pragma once

#include <string>

#include "text/grammar.h"

namespace ft {

Result<std::string> tool_call_lark(const ToolCallRules& rules, const Tokenizer& tokenizer);

}  // namespace ft
