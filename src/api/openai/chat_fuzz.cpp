// Fuzzes the bodies of OpenAI's endpoints: chat completions, completions, responses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/openai/chat_request.h"
#include "api/openai/completions_request.h"
#include "api/openai/responses_items.h"
#include "api/openai/responses_request.h"

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

/// An error's sentence names its field, and accepted parameters are within bounds.
void check(const ft::api::GenerateParams& call) {
  demand(call.choices >= 1 && call.choices <= ft::api::kMaxChoices);
  demand(call.logprobs >= -1 && call.logprobs <= ft::api::kMaxTopLogprobsAsked);
  demand(call.max_tokens >= 0);
  demand(call.prompts.size() <= ft::api::kMaxPrompts);
  for (const std::string* json : {&call.messages, &call.tools, &call.template_variables, &call.schema}) {
    if (!json->empty()) demand(!ft::api::Json::parse(*json, nullptr, false).is_discarded());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = ft::api::parse_body({reinterpret_cast<const char*>(data), size});
  if (!body.ok()) return 0;
  if (const auto chat = ft::api::read_chat(*body); chat.ok()) check(*chat);
  if (const auto completions = ft::api::read_completions(*body, 1000); completions.ok()) {
    check(completions->call);
    for (const auto& prompt : completions->call.prompts) demand(!prompt.text.empty() || !prompt.ids.empty());
  }
  ft::api::ResponseStore store;
  (void)store.put("resp_1", {"{}", R"([{"role":"user","content":"a"}])"}, {});
  if (const auto responses = ft::api::read_responses(*body, &store, {}); responses.ok()) {
    check(responses->call);
    demand(ft::api::Json::parse(responses->echo, nullptr, false).is_object());
    // A stored history is parsed as the same conversation.
    const ft::api::Json items = ft::api::Json::parse(responses->items, nullptr, false);
    ft::api::Notes notes;
    demand(ft::api::messages_of(items, 0, ft::api::OfferedNames(responses->call.call_names), notes).ok());
  }
  return 0;
}
