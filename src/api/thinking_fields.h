// The amount of thinking, in both OpenAI dialects: reasoning efforts, chat_template_kwargs, thinking_budget.
// Errors are kInvalid and name the field.
#pragma once

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

/// An effort of the API: "none" turns thinking off, any other turns it on; "auto" and "default" leave it to
/// the template. prepare.h finds the template's word for it.
Status read_effort(const Fields& fields, std::string_view name, GenerateParams& call);
/// chat_template_kwargs, whose enable_thinking wins over an effort, and thinking_budget.
Status read_template_fields(const Fields& fields, GenerateParams& call);

}  // namespace ft::api
