// The Lark grammar of tool calls in a model's native form: names and parameters as the request's tools
// declare them, in the order of the schema, required ones always. The chat format writes the inside of a
// call. Pure; any thread; linear in the tools. Errors: tools that are not a list, a name that is not offered,
// a form without a grammar, a dangling reference, a part of a strict schema that cannot be
// enforced.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar.h"

namespace ft {

Result<std::string> tool_call_lark(const ToolCallRules& rules, const Tokenizer& tokenizer);

/// The names of the tools that may be called; empty if they cannot be read.
std::vector<std::string> callable_names(const ToolCallRules& rules);

/// `schema` as a %json rule.
std::string json_rule(const nlohmann::ordered_json& schema, SchemaRule rule = SchemaRule::kLenient);

/// An error unless `name` can be written in a call, whose syntax has `reserved` characters; `what` is
/// "function" or "parameter".
Status check_name(std::string_view name, std::string_view what, std::string_view reserved);

}  // namespace ft
