#include "api/openai/completions_request.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/sampling_fields.h"
#include "base/json.h"

namespace ft::api {
namespace {

Result<GenerateParams::Prompt> read_ids(const Json& list, const std::string& path, int vocabulary) {
  GenerateParams::Prompt prompt;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& id = list[i];
    const bool good = id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() < vocabulary;
    if (!good) {
      return wrong(fmt::format("{}[{}]", path, i),
                   fmt::format("must be a token id below {}, found {}", vocabulary,
                               id.is_number_integer() ? write_json(id) : kind_of(id)));
    }
    prompt.ids.push_back(id.get<std::int32_t>());
  }
  return prompt;
}

/// Reads a text or a list of ids.
Result<GenerateParams::Prompt> read_prompt(const Json& value, const std::string& path, int vocabulary) {
  GenerateParams::Prompt prompt;
  if (value.is_string()) {
    prompt.text = value.get<std::string>();
  } else if (value.is_array()) {
    FT_ASSIGN(prompt, read_ids(value, path, vocabulary));
  } else {
    return wrong(path, fmt::format("must be a string or a list of token ids, found {}", kind_of(value)));
  }
  if (prompt.text.empty() && prompt.ids.empty()) return wrong(path, "is empty; give at least one token");
  return prompt;
}

Status read_prompts(const Fields& fields, int vocabulary, GenerateParams& call) {
  const Json* given = fields.find("prompt");
  if (given == nullptr) return wrong("prompt", "is missing; send a string, token ids, or a list of either");
  const bool many =
      given->is_array() && !given->empty() && ((*given)[0].is_string() || (*given)[0].is_array());
  if (!many) {
    FT_ASSIGN(GenerateParams::Prompt prompt, read_prompt(*given, "prompt", vocabulary));
    call.prompts.push_back(std::move(prompt));
    return {};
  }
  if (given->size() > kMaxPrompts) {
    return wrong("prompt", fmt::format("at most {} prompts, found {}", kMaxPrompts, given->size()));
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    FT_ASSIGN(GenerateParams::Prompt prompt,
              read_prompt((*given)[i], fmt::format("prompt[{}]", i), vocabulary));
    call.prompts.push_back(std::move(prompt));
  }
  return {};
}

Status read_counts(const Fields& fields, CompletionsRequest& request) {
  GenerateParams& call = request.call;
  FT_ASSIGN(const auto most, fields.integer("max_tokens", 0, 1 << 30));
  call.max_tokens = most.value_or(kDefaultCompletionTokens);
  FT_ASSIGN(const auto logprobs, fields.integer("logprobs", 0, kMaxLegacyLogprobs));
  if (logprobs) call.logprobs = static_cast<int>(*logprobs);
  FT_ASSIGN(const auto echo, fields.boolean("echo"));
  request.echo = echo.value_or(false);
  call.score_prompt = request.echo && logprobs.has_value();
  call.only_prompt = call.max_tokens == 0;
  if (call.only_prompt && !call.score_prompt) {
    return wrong("max_tokens",
                 "0 requests only the prompt's log-probabilities; send echo: true and "
                 "logprobs as well, or at least 1");
  }
  FT_ASSIGN(const auto best_of, fields.integer("best_of", 1, kMaxChoices));
  if (best_of && *best_of != call.choices) {
    return Error{Code::kUnsupported,
                 fmt::format("best_of: answers are not ranked; send 1 or the value of n, found {}", *best_of),
                 "best_of"};
  }
  if (static_cast<int>(call.prompts.size()) * call.choices <= kMaxCompletionChoices) return {};
  return wrong("n", fmt::format("at most {} answers in one call, found {} prompts of {} each",
                                kMaxCompletionChoices, call.prompts.size(), call.choices));
}

}  // namespace

Result<CompletionsRequest> read_completions(const Json& body, int vocabulary) {
  CompletionsRequest request;
  const Fields fields(body, "");
  FT_ASSIGN(const auto model, fields.text("model"));
  request.call.model = model.value_or("");
  FT_TRY(read_prompts(fields, vocabulary, request.call));
  FT_TRY(read_sampling(fields, request.call));
  FT_TRY(read_speculation(fields, request.call));
  FT_TRY(read_counts(fields, request));
  FT_ASSIGN(const auto suffix, fields.text("suffix"));
  request.suffix = suffix.value_or("");
  return request;
}

}  // namespace ft::api
