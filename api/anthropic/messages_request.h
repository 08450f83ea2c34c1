// POST /v1/messages and /v1/messages/count_tokens: their body as a Call. Unknown members are ignored; wrong
// ones are named. Thinking that is not asked for is off, as Anthropic's clients expect. Source: Anthropic's
// API reference; speculation, acceptance, drafter, depth and seed are ours. Pure. Thread: any. Cost: linear
// in the body. Errors: kInvalid and kUnsupported (images, PDF) with the field.
#pragma once

#include "api/generate_params.h"
#include "api/json.h"
#include "base/result.h"

namespace ft::api {

/// A body that only counts needs no max_tokens.
enum class Purpose { kAnswer, kCount };

Result<GenerateParams> read_messages_call(const Json& body, Purpose purpose);

}  // namespace ft::api
