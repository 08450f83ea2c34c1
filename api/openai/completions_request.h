// POST /v1/completions: its body as a Call with prompts instead of messages. Source: OpenAI's API reference
// (legacy completions) and what evaluation harnesses send: echo with logprobs asks for the log-probabilities
// of the prompt, max_tokens 0 for nothing else. Pure. Thread: any. Cost: linear in the body. Errors: kInvalid
// and kUnsupported with the field.
#pragma once

#include <string>

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

inline constexpr int kMaxLegacyLogprobs = 5;
inline constexpr int kMaxCompletionChoices = 128;  // prompts and n together
inline constexpr std::int64_t kDefaultCompletionTokens = 16;

struct CompletionsRequest {
  GenerateParams call;
  std::string suffix;  // empty: none
  bool echo = false;
};

/// `vocabulary` bounds ids.
Result<CompletionsRequest> read_completions(const Json& body, int vocabulary);

}  // namespace ft::api
