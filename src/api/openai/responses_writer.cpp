#include "api/openai/responses_writer.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/accounting.h"
#include "api/error_reply.h"
#include "api/fields.h"
#include "api/openai/client_calls.h"
#include "api/openai/sealed_reasoning.h"
#include "base/json.h"
#include "base/log.h"

namespace ft::api {
namespace {

Json usage_json(const Account& account) {
  return Json{{"input_tokens", account.prompt_tokens},
              {"input_tokens_details", {{"cached_tokens", account.cached_tokens}, {"cache_write_tokens", 0}}},
              {"output_tokens", account.completion_tokens},
              {"output_tokens_details", {{"reasoning_tokens", account.reasoning_tokens}}},
              {"total_tokens", account.prompt_tokens + account.completion_tokens}};
}

}  // namespace

ResponsesWriter::ResponsesWriter(const ModelInfo& model_info, ResponsesRequest request, ResponseMeta meta)
    : AnswerWriter("resp_", model_info, request.call.model, std::move(meta)), request_(std::move(request)) {}

void ResponsesWriter::frame(const char* type, const Json& data, std::string& out) {
  frame_numbered(type, events_++, data, out);
}

void ResponsesWriter::frame_numbered(const char* type, std::int64_t number, const Json& data,
                                     std::string& out) const {
  Json json{{"type", type}, {"sequence_number", number}};
  json.update(data);
  add_frame(type, json, out);
}

/// {item_id, output_index} of the open item.
Json ResponsesWriter::place() const {
  return Json{{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
}

Json ResponsesWriter::tokens_json(std::size_t from, std::size_t to) const {
  if (request_.call.logprobs < 0) return Json::array();
  return logprobs_json(choice_, from, to, *model_info_.tokenizer)["content"];
}

Json ResponsesWriter::part(const Item& item, bool filled) const {
  const std::string text = filled ? item.text : "";
  if (item.kind == Kind::kReasoning) {
    return Json{{"type", request_.summarises ? "summary_text" : "reasoning_text"}, {"text", text}};
  }
  return Json{{"type", "output_text"},
              {"text", text},
              {"annotations", Json::array()},
              {"logprobs", filled ? tokens_json(item.first_token, item.end_token) : Json::array()}};
}

Json ResponsesWriter::item_json(const Item& item) const {
  const bool filled = item.status != "in_progress";
  Json parts = Json::array();
  if (filled) parts.push_back(part(item, true));
  switch (item.kind) {
    case Kind::kReasoning: {
      Json json{{"id", item.id}, {"type", "reasoning"}, {"summary", Json::array()}};
      if (request_.summarises) {
        json["summary"] = std::move(parts);
      } else {
        json["content"] = std::move(parts);
      }
      const bool sealed = request_.seals_reasoning && filled;
      json["encrypted_content"] = sealed ? Json(seal_reasoning(item.text)) : Json();
      json["status"] = item.status;
      return json;
    }
    case Kind::kMessage:
      return Json{{"id", item.id},
                  {"type", "message"},
                  {"status", item.status},
                  {"role", "assistant"},
                  {"content", std::move(parts)}};
    case Kind::kClient: {
      const ClientTool& tool = *client_tool(item.called.client_tool);
      Json json{{"id", item.id}, {"type", tool.call}, {"status", item.status}, {"call_id", item.call_id}};
      json.update(client_call_members(tool, read_json<Json>(item.text)));
      return json;
    }
    case Kind::kFunction:
    case Kind::kCustom:
      break;
  }
  const bool custom = item.kind == Kind::kCustom;
  Json json{{"id", item.id},
            {"type", custom ? "custom_tool_call" : "function_call"},
            {"status", item.status},
            {"call_id", item.call_id},
            {"name", item.called.name},
            {custom ? "input" : "arguments", filled ? item.text : ""}};
  if (!item.called.space.empty()) json["namespace"] = item.called.space;
  return json;
}

void ResponsesWriter::open(Item item, std::string& out) {
  close("completed", out);
  item.first_token = item.end_token = choice_.tokens.size();
  items_.push_back(std::move(item));
  is_open_ = true;
  const Item& opened = items_.back();
  frame("response.output_item.added", Json{{"output_index", items_.size() - 1}, {"item", item_json(opened)}},
        out);
  if (opened.kind == Kind::kFunction || opened.kind == Kind::kCustom) return;
  Json data = place();
  const bool summary = opened.kind == Kind::kReasoning && request_.summarises;
  data[summary ? "summary_index" : "content_index"] = 0;
  data["part"] = part(opened, false);
  frame(summary ? "response.reasoning_summary_part.added" : "response.content_part.added", data, out);
}

/// Adds text to the open item of this kind, or opens a new one.
void ResponsesWriter::grow(Kind kind, const std::string& text, std::string& out) {
  if (!is_open_ || items_.back().kind != kind) {
    const std::size_t unshown = shown_;
    open(Item{.kind = kind, .id = random_id(kind == Kind::kReasoning ? "rs_" : "msg_")}, out);
    if (kind == Kind::kMessage) items_.back().first_token = unshown;
  }
  Item& item = items_.back();
  item.text += text;
  item.deltas.push_back(text.size());
  Json data = place();
  if (kind == Kind::kReasoning) {
    data[request_.summarises ? "summary_index" : "content_index"] = 0;
    data["delta"] = text;
    shown_ = choice_.tokens.size();
    frame(request_.summarises ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta",
          data, out);
    return;
  }
  data["content_index"] = 0, data["delta"] = text;
  data["logprobs"] = tokens_json(shown_, choice_.tokens.size());
  shown_ = item.end_token = choice_.tokens.size();
  frame("response.output_text.delta", data, out);
}

void ResponsesWriter::close_text(const Item& item, std::string& out) {
  const bool reasoning = item.kind == Kind::kReasoning;
  const bool summary = reasoning && request_.summarises;
  Json data = place();
  data[summary ? "summary_index" : "content_index"] = 0;
  Json done = data;
  done["text"] = item.text;
  if (!reasoning) done["logprobs"] = tokens_json(item.first_token, item.end_token);
  frame(summary     ? "response.reasoning_summary_text.done"
        : reasoning ? "response.reasoning_text.done"
                    : "response.output_text.done",
        done, out);
  data["part"] = part(item, true);
  frame(summary ? "response.reasoning_summary_part.done" : "response.content_part.done", data, out);
}

/// `offered` is the name that the model has written.
void ResponsesWriter::begin_call(const std::string& offered, std::string& out) {
  const auto known = request_.call.call_names.find(offered);
  Item item{.kind = request_.call.custom_tools.contains(offered) ? Kind::kCustom : Kind::kFunction,
            .call_id = choice_.calls.back().id,
            .called = known != request_.call.call_names.end() ? known->second : CallName{"", offered, ""}};
  input_ = {};
  client_call_.reset();
  if (const ClientTool* tool = client_tool(item.called.client_tool)) {
    close("completed", out);
    item.kind = Kind::kClient, item.id = random_id(tool->id_prefix);
    client_call_ = std::move(item);
    return;
  }
  item.id = random_id(item.kind == Kind::kCustom ? "ctc_" : "fc_");
  open(std::move(item), out);
}

/// Writes the call that has just ended, if it is a client's tool, with both of its events.
void ResponsesWriter::write_client_call(std::string& out) {
  if (!client_call_) return;
  if (!read_json<Json>(client_call_->text).is_object()) client_call_->text = "{}";
  items_.push_back(std::move(*client_call_));
  client_call_.reset();
  Item& item = items_.back();
  item.first_token = item.end_token = choice_.tokens.size();
  for (const char* status : {"in_progress", "completed"}) {
    const bool done = status == std::string_view("completed");
    item.status = status;
    frame(done ? "response.output_item.done" : "response.output_item.added",
          Json{{"output_index", items_.size() - 1}, {"item", item_json(item)}}, out);
  }
}

/// Adds a piece of the open call's arguments or of its input.
void ResponsesWriter::grow_call(const std::string& text, std::string& out) {
  if (text.empty()) return;
  Item& item = items_.back();
  item.text += text;
  item.deltas.push_back(text.size());
  Json data = place();
  data["delta"] = text;
  const bool custom = item.kind == Kind::kCustom;
  frame(custom ? "response.custom_tool_call_input.delta" : "response.function_call_arguments.delta", data,
        out);
}

void ResponsesWriter::close_call(Item& item, std::string& out) {
  if (item.kind == Kind::kCustom) grow_call(input_.finish(), out);
  Json data = place();
  if (item.kind == Kind::kFunction) {
    data["arguments"] = item.text;
    if (item.status != "incomplete") frame("response.function_call_arguments.done", data, out);
    return;
  }
  data["input"] = item.text;
  if (item.status != "incomplete") frame("response.custom_tool_call_input.done", data, out);
}

/// Closes the open item, if any.
void ResponsesWriter::close(const char* status, std::string& out) {
  if (!is_open_) return;
  is_open_ = false;
  Item& item = items_.back();
  item.status = status;
  if (item.kind == Kind::kFunction || item.kind == Kind::kCustom) {
    close_call(item, out);
  } else {
    close_text(item, out);
  }
  frame("response.output_item.done", Json{{"output_index", items_.size() - 1}, {"item", item_json(item)}},
        out);
}

const char* ResponsesWriter::final_status() const {
  if (choice_.failed()) return "failed";
  return choice_.finish == Finish::kLength ? "incomplete" : "completed";
}

Json ResponsesWriter::response(const char* status) const {
  const std::string_view word(status);
  const SamplingParams& sampler = model_info_.sampler;
  Json json{{"id", id()},
            {"object", "response"},
            {"created_at", meta_.created_s},
            {"status", status},
            {"background", false},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"model", model_},
            {"output", Json::array()},
            {"service_tier", "default"},
            {"temperature", request_.call.sampling.temperature.value_or(sampler.temperature)},
            {"top_p", request_.call.sampling.top_p.value_or(sampler.top_p)},
            {"usage", nullptr}};
  json.update(read_json<Json>(request_.echo));
  if (word == "in_progress") return json;
  if (word == "incomplete") json["incomplete_details"] = Json{{"reason", "max_output_tokens"}};
  if (word == "failed") {
    const Error failure = choice_.failure();
    const char* code = failure.code == Code::kInvalid ? "invalid_prompt" : "server_error";
    json["error"] = Json{{"code", code}, {"message", failure.message}};
  }
  for (const Item& item : items_) json["output"].push_back(item_json(item));
  const Account sum = account({choice_});
  json["usage"] = usage_json(sum);
  json["speculation"] = speculation_json(sum);
  json["timings"] = timings_json(sum);
  return json;
}

void ResponsesWriter::keep(const Json& response) const {
  if (!request_.store || model_info_.responses == nullptr || choice_.failed()) return;
  Json history = read_json<Json>(request_.items);
  const std::size_t inputs = history.size();
  std::vector<std::string> ids;
  for (const Json& item : response["output"]) {
    if (item.contains("id")) ids.push_back(item["id"].get<std::string>());
    // No client can answer a call that was cut.
    const bool call = item["type"] == "function_call" || item["type"] == "custom_tool_call";
    if (!call || item["status"] == "completed") history.push_back(item);
  }
  Json deltas = Json::array();
  for (const Item& item : items_) deltas.push_back(item.deltas);
  const Status kept = model_info_.responses->put(
      id(), {dump(response), dump(history), dump(deltas), inputs, std::move(ids)}, meta_.caller);
  if (!kept.ok()) log_warn(fmt::format("response {} was not stored: {}", id(), kept.error().message));
}

void ResponsesWriter::begin(std::string& out) {
  const Json response = this->response("in_progress");
  frame("response.created", Json{{"response", response}}, out);
  frame("response.in_progress", Json{{"response", response}}, out);
}

void ResponsesWriter::add(std::size_t, const Event& event, std::string& out) {
  choice_.take(event, model_info_.eos, "call_");
  switch (event.kind) {
    case Event::Kind::kText:
      grow(Kind::kMessage, event.text, out);
      break;
    case Event::Kind::kReasoning:
      grow(Kind::kReasoning, event.text, out);
      break;
    case Event::Kind::kToolBegin:
      begin_call(event.text, out);
      break;
    case Event::Kind::kToolArguments:
      if (client_call_) client_call_->text += event.text;
      if (!is_open_) break;
      grow_call(items_.back().kind == Kind::kCustom ? input_.push(event.text) : event.text, out);
      break;
    case Event::Kind::kToolEnd:
      shown_ = choice_.tokens.size();
      close("completed", out);
      write_client_call(out);
      break;
    case Event::Kind::kEnd:
      finish(out);
      break;
    case Event::Kind::kPromptToken:
    case Event::Kind::kToken:
    case Event::Kind::kDepth:
      break;
  }
}

/// Ends the answer; an answer without items becomes an empty message.
void ResponsesWriter::finish(std::string& out) {
  if (items_.empty() && !client_call_ && !choice_.failed()) grow(Kind::kMessage, "", out);
  const bool call =
      is_open_ && (items_.back().kind == Kind::kFunction || items_.back().kind == Kind::kCustom);
  const bool cut = call || choice_.failed() || choice_.finish == Finish::kLength;  // a whole call is closed
  close(cut ? "incomplete" : "completed", out);
}

/// An event, because Codex gives up on a stream after five minutes without one and ignores comments. It has
/// the number of the event before it, so that a stored stream (response_replay.h) has the same numbers.
void ResponsesWriter::keep_alive(std::string& out) {
  const std::int64_t last = std::max<std::int64_t>(events_ - 1, 0);
  frame_numbered("response.in_progress", last, Json{{"response", response("in_progress")}}, out);
}

void ResponsesWriter::end(std::string& out) {
  const char* status = final_status();
  const Json response = this->response(status);
  keep(response);
  const std::string type = fmt::format("response.{}", status);
  frame(type.c_str(), Json{{"response", response}}, out);
}

HttpResponse ResponsesWriter::reply() {
  if (choice_.failed()) return error_reply(Dialect::kOpenAi, choice_.failure(), "");
  const Json json = response(final_status());
  keep(json);
  HttpResponse reply;
  reply.body = dump(json);
  reply.headers.emplace_back("X-Speculation", speculation_header(account({choice_})));
  return reply;
}

}  // namespace ft::api
