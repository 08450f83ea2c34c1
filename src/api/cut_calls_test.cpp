// A call that max_tokens cuts, anywhere and in every chat format, is unfinished in every dialect, streamed or
// not: a client sees the beginning of the whole call.
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/anthropic/messages_writer.h"
#include "api/openai/chat_writer.h"
#include "api/openai/responses_request.h"
#include "api/openai/responses_writer.h"
#include "base/utf8.h"
#include "tests/api_events.h"
#include "text/answer.h"
#include "text/chat_format/gemma4.h"
#include "text/chat_format/glm4_moe.h"
#include "text/chat_format/granite.h"
#include "text/chat_format/harmony.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/llama3_json.h"
#include "text/chat_format/mistral.h"
#include "text/chat_format/qwen3_5.h"

namespace ft::api::cut_calls_test {
namespace {

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
    "exact": {"type": ["boolean", "null"]}, "more": {"type": "object"}, "tags": {"type": "array"}},
    "required": ["city", "days"], "additionalProperties": false}}}])";
constexpr const char* kArguments =
    R"({"city":"São \"P\" </p>","days":12,"exact":true,"more":{"x":[1.5,null,"y"],"z":{}},"tags":["a","b"]})";

struct Written {
  const ChatFormat& format;
  const char* tokenizer;
  std::string call;
};

std::vector<Written> written() {
  constexpr const char* kQwen = "assets/qwen3.5-tiny";
  const std::string json = kArguments;
  const std::string quote = "<|\"|>";
  const auto tagged = [](const char* name, const char* value) {
    return fmt::format("<parameter={}>\n{}\n</parameter>\n", name, value);
  };
  const auto pair = [](const char* name, const char* value) {
    return fmt::format("<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n", name, value);
  };
  const auto all = [](const auto& one) {
    return one("city", "São \"P\" </p>") + one("days", "12") + one("exact", "true") +
           one("more", R"({"x": [1.5, null, "y"], "z": {}})") + one("tags", R"(["a", "b"])");
  };
  const std::string gemma = "city:" + quote + "São \"P\" </p>" + quote +
                            ",days:12,exact:true,more:{x:[1.5,null," + quote + "y" + quote +
                            "],z:{}},tags:[" + quote + "a" + quote + "," + quote + "b" + quote + "]";
  return {{kQwen35Format, kQwen, "<tool_call>\n<function=f>\n" + all(tagged) + "</function>\n</tool_call>"},
          {kHermesFormat, kQwen, "<tool_call>\n{\"name\": \"f\", \"arguments\": " + json + "}\n</tool_call>"},
          {kGlm4MoeFormat, kQwen, "<tool_call>f\n" + all(pair) + "</tool_call>"},
          {kLlama3JsonFormat, kQwen, "{\"name\": \"f\", \"parameters\": " + json + "}"},
          {kGraniteFormat, kQwen, "<|tool_call|>[{\"name\": \"f\", \"arguments\": " + json + "}]"},
          {kMistralFormat, kQwen, "[TOOL_CALLS]f[ARGS]" + json},
          {kMistralListFormat, kQwen, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": " + json + "}]"},
          {kGemma4Format, "tests/golden/gemma4/odd", "<|tool_call>call:f{" + gemma + "}<tool_call|>"},
          {kHarmonyFormat, "tests/golden/gpt_oss/mxfp4",
           "<|channel|>commentary to=functions.f <|constrain|>json<|message|>" + json}};
}

/// The only call, as a client sees it.
struct Seen {
  std::string arguments, end;
  bool called = false, finished = false;
};

std::vector<Event> events_of(const Written& of, const Tokenizer& tokenizer,
                             std::span<const std::int32_t> ids) {
  AnswerOptions options;
  options.parse_tools = true, options.tools_json = kTools;
  Answer answer = std::move(Answer::create(tokenizer, of.format, options)).value();
  std::vector<Event> events;
  const auto take = [&](const std::vector<AnswerEvent>& more) {
    for (const AnswerEvent& one : more) static_cast<AnswerEvent&>(events.emplace_back()) = one;
  };
  for (const std::int32_t id : ids) take(answer.push(id));
  take(answer.finish(true));
  events.push_back(test::end_event(Finish::kLength));
  return events;
}

const ModelInfo& info() {
  static const ModelInfo made = test::model_info();
  return made;
}

struct Answered {
  std::vector<test::Frame> frames;
  Json reply;
};

Answered answered(AnswerWriter& writer, const std::vector<Event>& events) {
  std::string out;
  writer.begin(out);
  for (const Event& one : events) writer.add(0, one, out);
  writer.end(out);
  return {test::frames(out), Json::parse(writer.reply().body)};
}

std::vector<Seen> chat(const std::vector<Event>& events) {
  ChatWriter writer(info(), GenerateParams{}, ResponseMeta{"0a", 1, 2, ""}, 1);
  const Answered answer = answered(writer, events);
  Seen streamed, whole;
  for (const test::Frame& frame : answer.frames) {
    const Json json = frame.data();
    if (!json.is_object() || json["choices"].empty()) continue;
    const Json& choice = json["choices"][0];
    if (!choice["finish_reason"].is_null()) streamed.end = choice["finish_reason"];
    if (!choice["delta"].contains("tool_calls")) continue;
    streamed.called = true;
    streamed.arguments += choice["delta"]["tool_calls"][0]["function"].value("arguments", "");
  }
  const Json& choice = answer.reply["choices"][0];
  whole.end = choice["finish_reason"];
  whole.called = choice["message"].contains("tool_calls");
  if (whole.called) whole.arguments = choice["message"]["tool_calls"][0]["function"]["arguments"];
  return {streamed, whole};
}

std::vector<Seen> responses(const std::vector<Event>& events) {
  ResponsesRequest request = std::move(read_responses(Json{{"input", "x"}}, nullptr, {})).value();
  ResponsesWriter writer(info(), std::move(request), ResponseMeta{"0a", 1, 2, ""});
  const Answered answer = answered(writer, events);
  Seen streamed, whole;
  for (const test::Frame& frame : answer.frames) {
    if (frame.event == "response.function_call_arguments.delta") streamed.arguments += frame.data()["delta"];
    if (frame.event == "response.function_call_arguments.done") streamed.finished = true;
    if (frame.event != "response.output_item.added") continue;
    streamed.called = streamed.called || frame.data()["item"]["type"] == "function_call";
  }
  streamed.end = answer.frames.back().data()["response"]["incomplete_details"]["reason"];
  whole.end = answer.reply["incomplete_details"]["reason"];
  for (const Json& item : answer.reply["output"]) {
    if (item["type"] != "function_call") continue;
    whole.called = true, whole.finished = item["status"] == "completed";
    whole.arguments = item["arguments"];
  }
  return {streamed, whole};
}

std::vector<Seen> messages(const std::vector<Event>& events, const std::string& full) {
  GenerateParams call;
  call.max_tokens = 5;
  MessagesWriter writer(info(), call, ResponseMeta{"00", 0, 0, "req_7"}, 10);
  const Answered answer = answered(writer, events);
  Seen streamed, whole;
  for (const test::Frame& frame : answer.frames) {
    const Json json = frame.data();
    if (json["type"] == "content_block_start") streamed.called |= json["content_block"]["type"] == "tool_use";
    if (json["type"] == "message_delta") streamed.end = json["delta"]["stop_reason"];
    if (json["type"] == "content_block_delta" && json["delta"]["type"] == "input_json_delta")
      streamed.arguments += json["delta"]["partial_json"];
  }
  whole.end = answer.reply["stop_reason"];
  for (const Json& block : answer.reply["content"]) {
    if (block["type"] != "tool_use") continue;
    whole.called = true;
    const Json& input = block["input"];
    const bool right = input == Json::parse(full, nullptr, false);
    if (!input.empty()) whole.arguments = right ? full : input.dump();
  }
  return {streamed, whole};
}

/// Without the sign in place of a character whose bytes were cut.
std::string without_cut_character(std::string text) {
  constexpr std::string_view kSign = "\uFFFD";
  if (text.ends_with(kSign)) text.resize(text.size() - kSign.size());
  return text;
}

/// In every dialect the call is the beginning of `full`, and finished only if it is whole.
void expect_beginning(const std::vector<Event>& events, const std::string& full, const std::string& where) {
  const auto of_kind = [&](Event::Kind kind) {
    return std::ranges::any_of(events, [&](const Event& one) { return one.kind == kind; });
  };
  const bool called = of_kind(Event::Kind::kToolBegin), ended = of_kind(Event::Kind::kToolEnd);
  std::vector<Seen> all = chat(events);
  for (Seen& seen : all) {
    EXPECT_EQ(seen.end, "length") << where;
    seen.finished = ended;  // chat does not say
  }
  for (const Seen& seen : responses(events)) {
    EXPECT_EQ(seen.end, "max_output_tokens") << where;
    EXPECT_EQ(seen.finished, ended) << where;
    all.push_back(seen);
  }
  for (const Seen& seen : messages(events, full)) {
    EXPECT_EQ(seen.end, "max_tokens") << where;
    all.push_back(seen);
  }
  for (const Seen& seen : all) {
    EXPECT_EQ(seen.called, called) << where;
    EXPECT_TRUE(full.starts_with(without_cut_character(seen.arguments))) << where << ": " << seen.arguments;
    if (ended) {
      EXPECT_EQ(seen.arguments, full) << where;
    }
  }
}

TEST(CutCalls, AreTheBeginningOfTheWholeCallInEveryDialect) {
  for (const Written& of : written()) {
    const Tokenizer tokenizer = std::move(Tokenizer::load(of.tokenizer)).value();
    const std::vector<std::int32_t> ids = std::move(tokenizer.encode(of.call, false)).value();
    std::vector<std::int32_t> spelt;
    for (std::size_t at = 0, next = 1; at < of.call.size(); at = next++) {
      while (next < of.call.size() && !utf8_begins(of.call[next])) ++next;
      const auto more = std::move(tokenizer.encode(of.call.substr(at, next - at), false)).value();
      spelt.insert(spelt.end(), more.begin(), more.end());
    }
    for (const std::vector<std::int32_t>& tokens : {ids, spelt}) {
      std::string full;
      for (const Event& one : events_of(of, tokenizer, tokens)) {
        if (one.kind == Event::Kind::kToolArguments) full += one.text;
      }
      EXPECT_EQ(Json::parse(full, nullptr, false), Json::parse(kArguments)) << of.format.name << full;
      for (std::size_t count = 0; count <= tokens.size(); ++count) {
        expect_beginning(events_of(of, tokenizer, std::span(tokens).first(count)), full,
                         fmt::format("{} cut after {} of {} tokens", of.format.name, count, tokens.size()));
      }
    }
  }
}

}  // namespace
}  // namespace ft::api::cut_calls_test
