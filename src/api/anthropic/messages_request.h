// POST /v1/messages and /v1/messages/count_tokens: a body as GenerateParams. Unknown members are ignored;
// errors name invalid ones. Thinking is off unless requested, as Anthropic's clients expect. Source:
// Anthropic's API reference; speculation, acceptance, drafter, depth, and seed are foretoken's. Images and
// PDF are kUnsupported.
#pragma once

#include "api/generate_params.h"
#include "api/json.h"
#include "base/result.h"

namespace ft::api {

/// A count_tokens body needs no max_tokens.
enum class Purpose { kAnswer, kCount };

Result<GenerateParams> read_messages_call(const Json& body, Purpose purpose);

}  // namespace ft::api
