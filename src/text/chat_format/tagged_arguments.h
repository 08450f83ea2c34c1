// The grammar of a call whose parameters are between tags, each value as raw text where the schema allows
// text and as JSON otherwise. Qwen3.5 and GLM write such calls, GLM with tags that are tokens.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/chat_format.h"

namespace ft {

struct ArgumentTags {
  std::string_view before, after;  // around a parameter's name
  std::string_view between;        // a Lark expression from there to `open`
  std::string_view open;           // before a value; may be empty
  std::string_view close;          // ends a value; text before it is raw
  std::string_view gap;            // of a value that is not raw text, before `close`
  std::string_view next;           // a Lark expression after a parameter
};

/// The expression of all parameters of a function. Errors: a parameter whose name breaks the tags.
Result<CallBody> tagged_arguments(const ToolFunction& function, const ArgumentTags& tags,
                                  const std::string& prefix, std::string& lark);
/// The Lark rule of raw text, which all calls share.
std::string tagged_text_rule(const ArgumentTags& tags, const GrammarTags& vocabulary);

}  // namespace ft
