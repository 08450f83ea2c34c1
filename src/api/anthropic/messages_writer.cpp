#include "api/anthropic/messages_writer.h"

#include <nlohmann/json.hpp>

#include "api/accounting.h"
#include "api/base64.h"
#include "api/error_reply.h"
#include "api/fields.h"
#include "base/json.h"

namespace ft::api {
namespace {

void frame(const char* name, const Json& members, std::string& out) {
  Json json{{"type", name}};
  json.update(members);
  add_frame(name, json, out);
}

}  // namespace

std::string thinking_signature(std::string_view thinking) {
  std::string bytes = "foretoken";
  for (const std::uint64_t begin : {0xcbf29ce484222325ULL, 0x84222325cbf29ce4ULL}) {  // FNV-1a, twice
    std::uint64_t hash = begin;
    for (const char c : thinking) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(hash >> shift & 0xFF);
  }
  return encode_base64(bytes);
}

MessagesWriter::MessagesWriter(const ModelInfo& model_info, const GenerateParams& call, ResponseMeta meta,
                               int prompt_tokens)
    : AnswerWriter("msg_", model_info, call.model, std::move(meta)),
      prompt_tokens_(prompt_tokens),
      max_tokens_(call.max_tokens),
      call_names_(call.call_names),
      choices_(1) {}

Json MessagesWriter::envelope() const {
  return Json{{"id", id()},
              {"type", "message"},
              {"role", "assistant"},
              {"model", model_},
              {"content", Json::array()},
              {"stop_reason", nullptr},
              {"stop_sequence", nullptr}};
}

/// Only the prompt length is known before the end. Cached and new prompt tokens are counted separately.
Json MessagesWriter::usage() const {
  const Choice& choice = choices_.front();
  if (!choice.ended) {
    return Json{{"input_tokens", prompt_tokens_},
                {"cache_creation_input_tokens", 0},
                {"cache_read_input_tokens", 0},
                {"output_tokens", 0}};
  }
  const Report& report = choice.report;
  return Json{{"input_tokens", prompt_tokens_ - report.cached_tokens - report.kept_tokens},
              {"cache_creation_input_tokens", report.kept_tokens},
              {"cache_read_input_tokens", report.cached_tokens},
              {"output_tokens", report.completion_tokens},
              {"output_tokens_details", {{"thinking_tokens", report.reasoning_tokens}}}};
}

const char* MessagesWriter::stop_reason() const {
  const Choice& choice = choices_.front();
  const bool out_of_context =
      choice.finish == Finish::kContext ||
      (choice.finish == Finish::kLength && choice.report.completion_tokens < max_tokens_);
  if (out_of_context) return "model_context_window_exceeded";
  if (choice.finish == Finish::kLength) return "max_tokens";
  if (!choice.stop_string.empty()) return "stop_sequence";
  return choice.called() ? "tool_use" : "end_turn";
}

Json MessagesWriter::stop_sequence() const {
  const Choice& choice = choices_.front();
  return choice.stop_string.empty() ? Json() : Json(choice.stop_string);
}

void MessagesWriter::begin(std::string& out) {
  Json message = envelope();
  message["usage"] = usage();
  frame("message_start", Json{{"message", std::move(message)}}, out);
  keep_alive(out);
}

void MessagesWriter::keep_alive(std::string& out) { frame("ping", Json::object(), out); }

void MessagesWriter::open(Block block, std::string& out) {
  close(out);
  Json start;
  switch (block.kind) {
    case Block::Kind::kThinking:
      start = Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
      break;
    case Block::Kind::kText:
      start = Json{{"type", "text"}, {"text", ""}};
      break;
    case Block::Kind::kToolUse:
      start = tool_use(block, Json::object());
      break;
  }
  frame("content_block_start", Json{{"index", blocks_.size()}, {"content_block", std::move(start)}}, out);
  blocks_.push_back(std::move(block));
  open_ = true;
}

void MessagesWriter::close(std::string& out) {
  if (!open_) return;
  open_ = false;
  const std::size_t index = blocks_.size() - 1;
  const Block& block = blocks_.back();
  if (block.kind == Block::Kind::kThinking) {
    const Json delta{{"type", "signature_delta"}, {"signature", thinking_signature(block.text)}};
    frame("content_block_delta", Json{{"index", index}, {"delta", delta}}, out);
  }
  frame("content_block_stop", Json{{"index", index}}, out);
}

/// Extends the open block, or opens a new one if the kind differs.
void MessagesWriter::piece(Block::Kind kind, const std::string& text, std::string& out) {
  if (text.empty()) return;
  if (!open_ || blocks_.back().kind != kind) {
    if (kind == Block::Kind::kToolUse) return;  // belongs to no call
    open(Block{kind, "", "", {}}, out);
  }
  blocks_.back().text += text;
  Json delta;
  switch (kind) {
    case Block::Kind::kThinking:
      delta = Json{{"type", "thinking_delta"}, {"thinking", text}};
      break;
    case Block::Kind::kText:
      delta = Json{{"type", "text_delta"}, {"text", text}};
      break;
    case Block::Kind::kToolUse:
      delta = Json{{"type", "input_json_delta"}, {"partial_json", text}};
      break;
  }
  frame("content_block_delta", Json{{"index", blocks_.size() - 1}, {"delta", std::move(delta)}}, out);
}

void MessagesWriter::add(std::size_t index, const Event& event, std::string& out) {
  Choice& choice = choices_[index];
  choice.take(event, model_info_.eos, "toolu_");
  switch (event.kind) {
    case Event::Kind::kReasoning:
      piece(Block::Kind::kThinking, event.text, out);
      break;
    case Event::Kind::kText:
      piece(Block::Kind::kText, event.text, out);
      break;
    case Event::Kind::kToolBegin: {
      const auto known = call_names_.find(event.text);
      open(Block{Block::Kind::kToolUse, "", choice.calls.back().id,
                 known != call_names_.end() ? known->second : CallName{"", event.text, ""}},
           out);
      break;
    }
    case Event::Kind::kToolArguments:
      piece(Block::Kind::kToolUse, event.text, out);
      break;
    case Event::Kind::kToolEnd:
      close(out);
      break;
    case Event::Kind::kEnd:
      finish(out);
      break;
    default:
      break;
  }
}

void MessagesWriter::finish(std::string& out) {
  const Choice& choice = choices_.front();
  if (choice.failed()) {
    const HttpResponse error = error_reply(Dialect::kAnthropic, choice.failure(), meta_.request_id);
    out += "event: error\ndata: " + error.body + "\n\n";
    return;
  }
  close(out);
  const Account sum = account(choices_);
  frame("message_delta",
        Json{{"delta", {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}}},
             {"usage", usage()},
             {"speculation", speculation_json(sum)},
             {"timings", timings_json(sum)}},
        out);
}

void MessagesWriter::end(std::string& out) {
  if (!choices_.front().failed())
    frame("message_stop", Json::object(), out);  // a failed stream ends with its error
}

Json MessagesWriter::tool_use(const Block& block, Json input) {
  Json json{{"type", "tool_use"}, {"id", block.id}, {"name", block.called.name}, {"input", std::move(input)}};
  if (!block.called.space.empty()) json["toolset_name"] = block.called.space;
  return json;
}

Json MessagesWriter::whole(const Block& block) {
  switch (block.kind) {
    case Block::Kind::kThinking:
      return Json{
          {"type", "thinking"}, {"thinking", block.text}, {"signature", thinking_signature(block.text)}};
    case Block::Kind::kToolUse: {
      Json input = read_json<Json>(block.text);
      // A tool without arguments sends no pieces. Only the stream shows part of a call that was cut.
      if (!input.is_object()) input = Json::object();
      return tool_use(block, std::move(input));
    }
    case Block::Kind::kText:
      break;
  }
  return Json{{"type", "text"}, {"text", block.text}};
}

HttpResponse MessagesWriter::reply() {
  const Choice& choice = choices_.front();
  if (choice.failed()) return error_reply(Dialect::kAnthropic, choice.failure(), meta_.request_id);
  Json json = envelope();
  for (const Block& block : blocks_) json["content"].push_back(whole(block));
  json["stop_reason"] = stop_reason(), json["stop_sequence"] = stop_sequence();
  json["usage"] = usage();
  const Account sum = account(choices_);
  json["speculation"] = speculation_json(sum), json["timings"] = timings_json(sum);
  HttpResponse reply;
  reply.body = dump(json);
  reply.headers.emplace_back("X-Speculation", speculation_header(sum));
  return reply;
}

}  // namespace ft::api
