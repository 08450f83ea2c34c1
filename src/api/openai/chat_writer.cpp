#include "api/openai/chat_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/accounting.h"
#include "api/error_reply.h"
#include "api/fields.h"
#include "base/json.h"

namespace ft::api {
namespace {

std::string finish_reason(const Choice& choice, bool legacy) {
  if (choice.finish == Finish::kStop && choice.called()) return legacy ? "function_call" : "tool_calls";
  return std::string(finish_name(choice.finish));
}

}  // namespace

ChatWriter::ChatWriter(const ModelInfo& model_info, const GenerateParams& call, ResponseMeta meta,
                       std::size_t choices)
    : AnswerWriter("chatcmpl-", model_info, call.model, std::move(meta)),
      stream_usage_(call.stream_usage),
      stream_speculation_(call.stream_speculation),
      logprobs_(call.logprobs >= 0),
      legacy_functions_(call.legacy_functions),
      custom_tools_(call.custom_tools),
      choices_(choices),
      shown_(choices) {}

Json ChatWriter::envelope(const char* object) const {
  return Json{{"id", id()},
              {"object", object},
              {"created", meta_.created_s},
              {"model", model_},
              {"system_fingerprint", "foretoken-" + model_info_.version}};
}

void ChatWriter::frame(std::size_t index, Json delta, Json finish, std::string& out) {
  Choice& choice = choices_[index];
  std::size_t& shown = shown_[index].tokens;
  Json entry{{"index", index},
             {"delta", std::move(delta)},
             {"logprobs", nullptr},
             {"finish_reason", std::move(finish)}};
  if (logprobs_ && shown < choice.tokens.size()) {
    entry["logprobs"] = logprobs_json(choice, shown, choice.tokens.size(), *model_info_.tokenizer);
  }
  if (stream_speculation_) {
    Json tokens = Json::array();
    for (std::size_t i = shown; i < choice.tokens.size(); ++i) {
      tokens.push_back(Json{{"text", token_text(choice.tokens[i].id, *model_info_.tokenizer)},
                            {"accepted", choice.tokens[i].drafted}});
    }
    entry["speculation_tokens"] = std::move(tokens);
  }
  shown = choice.tokens.size();
  Json json = envelope("chat.completion.chunk");
  json["choices"] = Json::array({std::move(entry)});
  if (stream_usage_) json["usage"] = nullptr;
  add_frame("", json, out);
}

void ChatWriter::begin(std::string& /*out*/) {}

/// The role, once. Whether content follows is known from the first event.
void ChatWriter::begin_choice(std::size_t index, Event::Kind kind, std::string& out) {
  using Kind = Event::Kind;
  const bool shown = kind == Kind::kText || kind == Kind::kReasoning || kind == Kind::kToolBegin ||
                     (kind == Kind::kEnd && !choices_[index].failed());
  if (!shown || shown_[index].begun) return;
  shown_[index].begun = true;
  const bool content = kind == Kind::kText || kind == Kind::kEnd;
  const std::size_t tokens = std::exchange(shown_[index].tokens, choices_[index].tokens.size());
  frame(index, Json{{"role", "assistant"}, {"content", content ? Json("") : Json()}}, Json(), out);
  shown_[index].tokens = tokens;  // they belong to the text that follows
}

void ChatWriter::add(std::size_t index, const Event& event, std::string& out) {
  Choice& choice = choices_[index];
  choice.take(event, model_info_.eos, "call_");
  begin_choice(index, event.kind, out);
  switch (event.kind) {
    case Event::Kind::kText:
      frame(index, Json{{"content", event.text}}, Json(), out);
      break;
    case Event::Kind::kReasoning:
      frame(index, Json{{"content", nullptr}, {"reasoning_content", event.text}}, Json(), out);
      break;
    case Event::Kind::kToolBegin:
    case Event::Kind::kToolArguments:
    case Event::Kind::kToolEnd:
      tool_frame(index, event, out);
      break;
    case Event::Kind::kEnd:
      if (choice.failed()) {
        add_frame("", read_json<Json>(error_reply(Dialect::kOpenAi, choice.failure(), "").body), out);
      } else {
        frame(index, Json::object(), finish_reason(choice, legacy_functions_), out);
      }
      break;
    default:
      break;
  }
}

bool ChatWriter::is_custom(const Choice& choice) const {
  return !choice.calls.empty() && custom_tools_.contains(choice.calls.back().name);
}

/// Sends a call's name and id once, then pieces of its arguments, or of a custom tool's input. The legacy
/// form holds one call.
void ChatWriter::tool_frame(std::size_t index, const Event& event, std::string& out) {
  const Choice& choice = choices_[index];
  if (choice.calls.empty() || (legacy_functions_ && choice.calls.size() > 1)) return;
  const bool begins = event.kind == Event::Kind::kToolBegin, custom = is_custom(choice);
  CustomInput& input = shown_[index].input;
  if (begins) input = {};
  std::string piece = begins ? "" : event.text;
  if (custom && !begins)
    piece = event.kind == Event::Kind::kToolEnd ? input.finish() : input.push(event.text);
  if (!begins && piece.empty()) return;
  Json function;
  if (begins) function["name"] = event.text;
  function[custom ? "input" : "arguments"] = std::move(piece);
  Json delta{{"content", nullptr}};
  if (legacy_functions_) {
    delta["function_call"] = std::move(function);
  } else {
    const char* kind = custom ? "custom" : "function";
    Json call{{"index", choice.calls.size() - 1}};
    if (begins) call["id"] = choice.calls.back().id, call["type"] = kind;
    call[kind] = std::move(function);
    delta["tool_calls"] = Json::array({std::move(call)});
  }
  frame(index, std::move(delta), Json(), out);
}

void ChatWriter::end(std::string& out) {
  const bool failed =
      std::any_of(choices_.begin(), choices_.end(), [](const Choice& c) { return c.failed(); });
  if (failed) return;  // the error frame ended the stream
  const Account sum = account(choices_);
  Json json = envelope("chat.completion.chunk");
  json["choices"] = Json::array();
  if (stream_usage_) json["usage"] = openai_usage(sum);
  json["speculation"] = speculation_json(sum);
  json["timings"] = timings_json(sum);
  if (stream_usage_ || stream_speculation_) add_frame("", json, out);
  out += "data: [DONE]\n\n";
}

Json ChatWriter::message(const Choice& choice) const {
  Json message{{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  if (choice.text.empty() && !choice.calls.empty()) message["content"] = nullptr;
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  for (const Choice::ToolCall& call : choice.calls) {
    if (legacy_functions_) {
      message["function_call"] = Json{{"name", call.name}, {"arguments", call.arguments}};
      break;
    }
    if (custom_tools_.contains(call.name)) {
      CustomInput input;
      const std::string text = input.push(call.arguments) + input.finish();
      message["tool_calls"].push_back(
          Json{{"id", call.id}, {"type", "custom"}, {"custom", {{"name", call.name}, {"input", text}}}});
      continue;
    }
    message["tool_calls"].push_back(Json{{"id", call.id},
                                         {"type", "function"},
                                         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

HttpResponse ChatWriter::reply() {
  Json json = envelope("chat.completion");
  json["choices"] = Json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    if (choice.failed()) return error_reply(Dialect::kOpenAi, choice.failure(), "");
    Json logprobs;
    if (logprobs_) logprobs = logprobs_json(choice, 0, choice.tokens.size(), *model_info_.tokenizer);
    json["choices"].push_back(Json{{"index", i},
                                   {"message", message(choice)},
                                   {"logprobs", std::move(logprobs)},
                                   {"finish_reason", finish_reason(choice, legacy_functions_)}});
  }
  return accounted_reply(std::move(json), account(choices_));
}

}  // namespace ft::api
