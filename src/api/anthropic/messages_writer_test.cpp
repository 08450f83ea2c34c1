#include "api/anthropic/messages_writer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/fields.h"

namespace ft::api::messages_writer_test {
namespace {

using Kind = Event::Kind;

Event event(Kind kind, std::string text = "") {
  Event made;
  made.kind = kind, made.text = std::move(text);
  return made;
}

Event end_of(Finish finish) {
  Event made = event(Kind::kEnd);
  made.finish = finish;
  made.report.completion_tokens = 9, made.report.cached_tokens = 4, made.report.reasoning_tokens = 2;
  made.report.kept_tokens = 5;
  return made;
}

const std::vector<Event> kThinksThenCalls{event(Kind::kReasoning, "let me "),
                                          event(Kind::kReasoning, "see"),
                                          event(Kind::kText, "Look"),
                                          event(Kind::kText, "ing"),
                                          event(Kind::kToolBegin, "f"),
                                          event(Kind::kToolArguments, R"({"a")"),
                                          event(Kind::kToolArguments, R"(:1})"),
                                          event(Kind::kToolEnd),
                                          event(Kind::kToolBegin, "g"),
                                          event(Kind::kToolArguments, "{}"),
                                          event(Kind::kToolEnd),
                                          end_of(Finish::kStop)};

struct Written {
  std::vector<Json> frames;  // each has a type equal to its event name
  Json reply;
};

Written write(const std::vector<Event>& events, std::int64_t max_tokens = 9) {
  static const ModelInfo model_info = [] {
    ModelInfo made;
    made.id = "tiny";
    return made;
  }();
  GenerateParams call;
  call.max_tokens = max_tokens;
  MessagesWriter writer(model_info, call, ResponseMeta{"00", 0, 0, "req_7"}, 10);
  std::string out;
  writer.begin(out);
  for (const Event& one : events) writer.add(0, one, out);
  writer.end(out);
  Written written;
  std::size_t at = 0;
  while (at < out.size()) {
    const std::size_t line = out.find('\n', at), end = out.find("\n\n", line);
    const std::string name = out.substr(at + 7, line - at - 7);
    EXPECT_EQ(out.substr(at, 7), "event: ");
    EXPECT_EQ(out.substr(line + 1, 6), "data: ");
    written.frames.push_back(Json::parse(out.substr(line + 7, end - line - 7)));
    EXPECT_EQ(written.frames.back()["type"], name);
    at = end + 2;
  }
  written.reply = Json::parse(writer.reply().body);
  return written;
}

/// Builds the message from the frames as Anthropic's SDK does, and checks their order.
Json accumulate(const std::vector<Json>& frames) {
  Json message;
  bool open = false;
  std::string partial;
  for (const Json& frame : frames) {
    const std::string type = frame["type"];
    if (type == "message_start") {
      EXPECT_TRUE(message.is_null());
      message = frame["message"];
    } else if (type == "content_block_start") {
      EXPECT_FALSE(open);
      EXPECT_EQ(frame["index"], message["content"].size());
      message["content"].push_back(frame["content_block"]);
      open = true, partial.clear();
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(open);
      EXPECT_EQ(frame["index"], message["content"].size() - 1);
      Json& block = message["content"].back();
      const Json& delta = frame["delta"];
      if (delta["type"] == "input_json_delta") {
        partial += delta["partial_json"].get<std::string>();
        continue;
      }
      const std::string name = delta["type"] == "text_delta"       ? "text"
                               : delta["type"] == "thinking_delta" ? "thinking"
                                                                   : "signature";
      block[name] = block[name].get<std::string>() + delta[name].get<std::string>();
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(open);
      if (!partial.empty()) message["content"].back()["input"] = Json::parse(partial);
      open = false;
    } else if (type == "message_delta") {
      EXPECT_FALSE(open);
      message.update(frame["delta"]);
      message["usage"].update(frame["usage"]);
      message["speculation"] = frame["speculation"], message["timings"] = frame["timings"];
    }
  }
  EXPECT_EQ(frames.back()["type"], "message_stop");
  return message;
}

TEST(MessagesWriter, TheStreamAddsUpToTheWholeAnswer) {
  const Written written = write(kThinksThenCalls);
  EXPECT_EQ(accumulate(written.frames), written.reply);
  EXPECT_EQ(written.frames[1]["type"], "ping");
  EXPECT_EQ(written.reply["id"], "msg_00");
  EXPECT_EQ(written.reply["model"], "tiny");
}

TEST(MessagesWriter, ThinkingIsSignedOnceAndStandsFirst) {
  const Written written = write(kThinksThenCalls);
  const Json& content = written.reply["content"];
  ASSERT_EQ(content.size(), 4U);
  EXPECT_EQ(content[0]["thinking"], "let me see");
  EXPECT_EQ(content[0]["signature"], thinking_signature("let me see"));
  EXPECT_EQ(content[1]["text"], "Looking");
  int signatures = 0;
  for (const Json& frame : written.frames) {
    if (frame["type"] != "content_block_delta" || frame["delta"]["type"] != "signature_delta") continue;
    ++signatures;
    EXPECT_EQ(frame["index"], 0);
  }
  EXPECT_EQ(signatures, 1);
}

TEST(MessagesWriter, ASignatureIsStableAndItsTexts) {
  EXPECT_EQ(thinking_signature("a"), thinking_signature("a"));
  EXPECT_NE(thinking_signature("a"), thinking_signature("b"));
  EXPECT_EQ(thinking_signature("a").size() % 4, 0U);
  EXPECT_EQ(thinking_signature("a").find_first_not_of(
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
            std::string::npos);
}

TEST(MessagesWriter, EachCallIsABlockWithAnIdOfItsOwn) {
  const Json content = write(kThinksThenCalls).reply["content"];
  EXPECT_EQ(content[2]["name"], "f");
  EXPECT_EQ(content[2]["input"], Json::parse(R"({"a":1})"));
  EXPECT_EQ(content[3]["input"], Json::object());
  EXPECT_TRUE(content[2]["id"].get<std::string>().starts_with("toolu_"));
  EXPECT_NE(content[2]["id"], content[3]["id"]);
}

TEST(MessagesWriter, InputTokensAreWithoutThoseFromAndForTheCache) {
  const Written written = write(kThinksThenCalls);
  const Json& usage = written.reply["usage"];
  EXPECT_EQ(usage["input_tokens"], 1);
  EXPECT_EQ(usage["cache_read_input_tokens"], 4);
  EXPECT_EQ(usage["cache_creation_input_tokens"], 5);
  EXPECT_EQ(usage["output_tokens"], 9);
  EXPECT_EQ(usage["output_tokens_details"]["thinking_tokens"], 2);
  EXPECT_EQ(written.frames[0]["message"]["usage"]["input_tokens"], 10);
}

TEST(MessagesWriter, EachEndHasItsReason) {
  const auto reason = [](Event last, std::int64_t max_tokens = 9) {
    return write({event(Kind::kText, "x"), std::move(last)}, max_tokens).reply["stop_reason"];
  };
  EXPECT_EQ(reason(end_of(Finish::kStop)), "end_turn");
  EXPECT_EQ(reason(end_of(Finish::kLength)), "max_tokens");
  EXPECT_EQ(reason(end_of(Finish::kLength), 10), "model_context_window_exceeded");
  EXPECT_EQ(reason(end_of(Finish::kContext)), "model_context_window_exceeded");
  EXPECT_EQ(write(kThinksThenCalls).reply["stop_reason"], "tool_use");
  Event stopped = end_of(Finish::kStop);
  stopped.by_stop_string = true, stopped.stop_string = "END";
  const Json reply = write({event(Kind::kText, "x"), stopped}).reply;
  EXPECT_EQ(reply["stop_reason"], "stop_sequence");
  EXPECT_EQ(reply["stop_sequence"], "END");
}

TEST(MessagesWriter, AFailureIsAnErrorEventAndTheLast) {
  Event failed = end_of(Finish::kError);
  failed.error = {Code::kIo, "the backend broke"};
  const Written written = write({event(Kind::kText, "x"), failed});
  EXPECT_EQ(written.frames.back()["type"], "error");
  EXPECT_EQ(written.frames.back()["error"]["type"], "api_error");
  EXPECT_EQ(written.frames.back()["error"]["message"], "the backend broke");
  EXPECT_EQ(written.frames.back()["request_id"], "req_7");
  EXPECT_EQ(written.reply["type"], "error");
  EXPECT_EQ(written.reply["request_id"], "req_7");
}

TEST(MessagesWriter, AnAnswerOfNothingHasNoBlocks) {
  const Written written = write({end_of(Finish::kStop)});
  EXPECT_EQ(written.reply["content"], Json::array());
  EXPECT_EQ(accumulate(written.frames), written.reply);
}

}  // namespace
}  // namespace ft::api::messages_writer_test
