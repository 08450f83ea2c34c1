// POST /v1/completions: a body as GenerateParams with prompts instead of messages. Source: OpenAI's API
// reference (legacy completions) and the requests of evaluation harnesses: echo with logprobs requests the
// log-probabilities of the prompt, and max_tokens 0 requests nothing else.
#pragma once

#include <string>

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

inline constexpr int kMaxLegacyLogprobs = 5;
inline constexpr int kMaxCompletionChoices = 128;  // prompts times n
inline constexpr std::int64_t kDefaultCompletionTokens = 16;

struct CompletionsRequest {
  GenerateParams call;
  std::string suffix;  // empty: none
  bool echo = false;
};

/// Ids must be less than `vocabulary`.
Result<CompletionsRequest> read_completions(const Json& body, int vocabulary);

}  // namespace ft::api
