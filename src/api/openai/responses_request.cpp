#include "api/openai/responses_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/openai/chat_request.h"
#include "api/openai/responses_items.h"
#include "api/openai/responses_tools.h"
#include "api/openai/tools_request.h"
#include "api/sampling_fields.h"
#include "api/thinking_fields.h"
#include "base/json.h"

namespace ft::api {
namespace {

Status read_reasoning(const Fields& fields, ResponsesRequest& request) {
  FT_ASSIGN(const Json* reasoning, fields.object("reasoning"));
  if (reasoning != nullptr) {
    const Fields inner(*reasoning, "reasoning");
    FT_ASSIGN(const auto summary, inner.text("summary"));
    request.summarises = summary && *summary != "none";
    FT_TRY(read_effort(inner, "effort", request.call));
  }
  return read_template_fields(fields, request.call);
}

Status read_text_format(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const Json* text, fields.object("text"));
  if (text == nullptr) return {};
  const Fields inner(*text, "text");
  FT_ASSIGN(const auto verbosity, inner.word("verbosity", {"low", "medium", "high"}));
  (void)verbosity;  // accepted and ignored: the model has no such setting
  FT_ASSIGN(const Json* format, inner.object("format"));
  if (format == nullptr) return {};
  return read_response_format(*format, "text.format", call);
}

Status read_include(const Fields& fields, ResponsesRequest& request) {
  FT_ASSIGN(const auto top, fields.integer("top_logprobs", 0, kMaxTopLogprobsAsked));
  FT_ASSIGN(const Json* include, fields.array("include", 64));
  const auto includes = [&](const char* name) {
    return include != nullptr && std::find(include->begin(), include->end(), name) != include->end();
  };
  const bool logprobs = (top && *top > 0) || includes("message.output_text.logprobs");
  if (logprobs) request.call.logprobs = static_cast<int>(top.value_or(0));
  request.seals_reasoning = includes("reasoning.encrypted_content");
  return {};
}

/// The history of previous_response_id, or an empty list.
Result<Json> read_history(const Fields& fields, ResponseStore* store, const Caller& caller) {
  FT_ASSIGN(const auto previous, fields.text("previous_response_id"));
  if (!previous) return Json::array();
  std::optional<StoredResponse> stored;
  if (store != nullptr) stored = store->get(*previous, caller);
  if (stored) return read_json<Json>(stored->history);
  return Error{
      Code::kNotFound,
      fmt::format("previous_response_id: no response \"{}\" is stored; it was sent with store: false, "
                  "deleted, or evicted; send the whole input instead",
                  *previous),
      "previous_response_id"};
}

/// Puts stored items in the place of references to them, as clients of stored responses write their history.
Status follow_references(Json& items, std::size_t skipped, ResponseStore* store, const Caller& caller) {
  for (std::size_t i = skipped; i < items.size(); ++i) {
    const Json& item = items[i];
    if (!item.is_object() || item.value("type", Json()) != "item_reference") continue;
    const std::string path = fmt::format("input[{}].id", i - skipped);
    const Json id = item.value("id", Json());
    if (!id.is_string()) return wrong(path, "is missing; it names a stored item");
    std::optional<std::string> body;
    if (store != nullptr) body = store->body_with_item(id.get<std::string>(), caller);
    const Json output = body ? read_json<Json>(*body).value("output", Json::array()) : Json::array();
    const auto found =
        std::ranges::find_if(output, [&](const Json& one) { return one.value("id", Json()) == id; });
    if (found == output.end()) {
      return Error{
          Code::kNotFound,
          fmt::format("{}: no item {} is stored; its response was sent with store: false, deleted, or "
                      "evicted; send the item itself",
                      path, dump(id)),
          path};
    }
    items[i] = *found;
  }
  return {};
}

/// Members of the response that repeat the request, in OpenAI's order.
Json echo_of(const Json& body, const ResponsesRequest& request) {
  const auto or_null = [&](const char* name) { return body.contains(name) ? body[name] : Json(); };
  const auto or_else = [&](const char* name, const Json& other) {
    return body.contains(name) && !body[name].is_null() ? body[name] : other;
  };
  Json text = or_else("text", Json::object());
  if (!text.contains("format") || text["format"].is_null()) text["format"] = Json{{"type", "text"}};
  return Json{{"instructions", or_null("instructions")},
              {"max_output_tokens", or_null("max_output_tokens")},
              {"metadata", or_else("metadata", Json::object())},
              {"parallel_tool_calls", request.call.parallel_tools},
              {"previous_response_id", or_null("previous_response_id")},
              {"prompt_cache_key", or_null("prompt_cache_key")},
              {"reasoning", or_else("reasoning", Json{{"effort", nullptr}, {"summary", nullptr}})},
              {"store", request.store},
              {"text", std::move(text)},
              {"tool_choice", or_else("tool_choice", "auto")},
              {"tools", or_else("tools", Json::array())},
              {"top_logprobs", std::max(0, request.call.logprobs)},
              {"truncation", "disabled"},
              {"user", or_null("user")}};
}

Status refuse_background(const Fields& fields) {
  FT_ASSIGN(const auto background, fields.boolean("background"));
  if (!background.value_or(false)) return {};
  return Error{Code::kUnsupported, "background: answers are not decoded in the background; use stream",
               "background"};
}

}  // namespace

Result<ResponsesRequest> read_responses(const Json& body, ResponseStore* store, const Caller& caller) {
  ResponsesRequest request;
  GenerateParams& call = request.call;
  const Fields fields(body, "");
  FT_TRY(refuse_background(fields));
  FT_ASSIGN(const auto model, fields.text("model"));
  call.model = model.value_or("");
  FT_ASSIGN(Json items, read_history(fields, store, caller));
  const std::size_t skipped = items.size();
  const Json* input = fields.find("input");
  if (input == nullptr) return wrong("input", "is missing; send a string or a list of items");
  FT_ASSIGN(const Json fresh, read_input(*input));
  for (const Json& item : fresh) items.push_back(item);
  if (items.empty()) return wrong("input", "is empty; send at least one item");
  FT_TRY(follow_references(items, skipped, store, caller));
  FT_ASSIGN(const Json tools, read_responses_tools(fields, items, skipped, call));
  FT_ASSIGN(Json messages, messages_of(items, skipped, OfferedNames(call.call_names), call.notes));
  FT_ASSIGN(const auto instructions, fields.text("instructions"));
  if (instructions) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", *instructions}});
  }
  call.messages = dump(messages);
  request.items = dump(items);
  FT_TRY(read_tool_choice(fields, tools, call));
  FT_TRY(read_reasoning(fields, request));
  FT_TRY(read_text_format(fields, call));
  FT_TRY(read_include(fields, request));
  FT_TRY(read_sampling(fields, call));
  call.choices = 1;  // the API has no n
  FT_TRY(read_speculation(fields, call));
  FT_ASSIGN(const auto most, fields.integer("max_output_tokens", 1, 1 << 30));
  call.max_tokens = most.value_or(0);
  FT_ASSIGN(const auto truncation, fields.word("truncation", {"auto", "disabled"}));
  (void)truncation;  // long prompts are always refused; the answer says "disabled"
  FT_ASSIGN(const auto keep, fields.boolean("store"));
  request.store = keep.value_or(true);
  FT_ASSIGN(const Json* metadata, fields.object("metadata"));
  (void)metadata;
  request.echo = dump(echo_of(body, request));
  return request;
}

}  // namespace ft::api
