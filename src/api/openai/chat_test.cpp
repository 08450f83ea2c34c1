#include "api/openai/chat.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/openai/chat_request.h"
#include "api/openai/chat_writer.h"
#include "tests/api_events.h"

namespace ft::api::chat_test {
namespace {

Result<GenerateParams> read(const std::string& body) {
  FT_ASSIGN(const Json json, parse_body(body));
  return read_chat(json);
}

/// A body with one message, followed by `rest`.
std::string body(const std::string& rest) {
  return R"({"messages": [{"role": "user", "content": "a"}])" + (rest.empty() ? "" : ", " + rest) + "}";
}

std::string field_of(const std::string& text) {
  const Result<GenerateParams> call = read(text);
  return call.ok() ? "(none)" : call.error().field;
}

std::string field_of_message(const std::string& message) {
  return field_of(R"({"messages": [)" + message + "]}");
}

TEST(ChatRequest, RolesAndContentsInAllTheirForms) {
  const Result<GenerateParams> call = read(R"({"messages": [
    {"role": "developer", "content": [{"type": "text", "text": "s"}]},
    {"role": "user", "content": "a", "name": "Ada"},
    {"role": "assistant", "content": null, "reasoning": "r", "tool_calls": [
      {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "x"},
    {"role": "assistant", "content": "", "function_call": {"name": "g", "arguments": ""}},
    {"role": "function", "name": "g", "content": "y"}]})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const Json list = Json::parse(call->messages);
  EXPECT_EQ(list[0]["content"][0]["text"], "s");
  EXPECT_EQ(list[2]["content"], "");
  EXPECT_EQ(list[2]["reasoning_content"], "r");
  EXPECT_EQ(list[2]["tool_calls"][0]["function"]["arguments"]["a"], 1);
  EXPECT_EQ(list[4]["tool_calls"][0]["function"]["name"], "g");
  EXPECT_EQ(list[5]["role"], "tool");
}

TEST(ChatRequest, PartsOfOtherServicesAreReadOrLeftOut) {
  const Result<GenerateParams> call = read(R"({"messages": [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
      {"type": "text", "text": "b"}, {"type": "tool_use", "id": "c", "name": "f", "input": {}}],
     "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": {"degrees": 7}},
    {"role": "assistant", "content": [{"type": "reasoning", "text": "r"}], "thinking": "not this"},
    {"role": "tool", "tool_call_id": "d", "content": [{"type": "resource", "uri": "u"}, "x"]}]})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const Json list = Json::parse(call->messages);
  EXPECT_EQ(list[1]["reasoning_content"], "t");
  EXPECT_EQ(list[1]["content"].size(), 1U);
  EXPECT_EQ(list[2]["content"], R"({"degrees":7})");
  EXPECT_EQ(list[3]["reasoning_content"], "r");
  EXPECT_EQ(list[3]["content"], "");
  EXPECT_EQ(list[4]["content"][0]["text"], R"({"type":"resource","uri":"u"})");
}

TEST(ChatRequest, WordsOfOtherServersMeanTheSame) {
  EXPECT_EQ(read(body(R"("max_tokens": -1)"))->max_tokens, 0) << "no limit";
  EXPECT_EQ(field_of(body(R"("max_tokens": 0)")), "max_tokens");
  const Result<GenerateParams> call =
      read(body(R"("response_format": {"type": "json_object", "schema": {"type": "array"}})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->format, Format::kJsonSchema);
  EXPECT_EQ(call->schema, R"({"type":"array"})");
  const auto choice = [](const std::string& given) {
    return *read(
        body(R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": )" + given));
  };
  EXPECT_EQ(choice(R"({"type": "any"})").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(choice(R"("any")").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(choice(R"({"type": "none"})").tool_choice, ToolChoice::kNone);
  EXPECT_EQ(choice(R"({"type": "auto"})").tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(choice(R"({"type": "tool", "name": "f"})").named_tool, "f");
  EXPECT_EQ(field_of(body(R"("tools": [{"type": "function", "function": {"name": "f"}}],
                             "tool_choice": {"type": "tool", "name": "g"})")),
            "tool_choice.name");
}

TEST(ChatRequest, AWrongMessageIsNamed) {
  EXPECT_EQ(field_of("{}"), "messages");
  EXPECT_EQ(field_of(R"({"messages": []})"), "messages");
  EXPECT_EQ(field_of_message("5"), "messages[0]");
  EXPECT_EQ(field_of_message(R"({"content": "a"})"), "messages[0].role");
  EXPECT_EQ(field_of_message(R"({"role": "wizard", "content": "a"})"), "messages[0].role");
  EXPECT_EQ(field_of_message(R"({"role": "user"})"), "messages[0].content");
  EXPECT_EQ(field_of_message(R"({"role": "user", "content": [{"type": "poem"}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(field_of_message(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f",
                                 "arguments": 5}}]})"),
            "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(field_of_message(R"({"role": "assistant", "tool_calls": [{"type": "custom", "custom": {}}]})"),
            "messages[0].tool_calls[0].custom.name");
}

TEST(ChatRequest, ImagesAreDataUrisOrAddressesAndNamed) {
  const auto with = [](const std::string& part) {
    return read(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, )" + part +
                "]}]}");
  };
  const auto good = with(R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}})");
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_NE(good->messages.find(R"("at":"messages[0].content[1]")"), std::string::npos) << good->messages;
  const auto remote = with(R"({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}})");
  ASSERT_TRUE(remote.ok()) << remote.error().message;  // decided when it is loaded
  EXPECT_NE(remote->messages.find(R"("at":"messages[0].content[1].image_url.url")"), std::string::npos);
  EXPECT_EQ(with(R"({"type": "image_url", "image_url": {"url": "x"}})").error().code, Code::kInvalid);
  EXPECT_EQ(with(R"({"type": "image_url", "image_url": {"url": "data:,", "detail": "vast"}})").error().field,
            "messages[0].content[1].image_url.detail");
  const auto sound = with(R"({"type": "input_audio", "input_audio": {}})");
  EXPECT_EQ(sound.error().code, Code::kUnsupported);
  EXPECT_EQ(sound.error().field, "messages[0].content[1]");
}

TEST(ChatRequest, AWrongParameterIsNamed) {
  EXPECT_EQ(field_of(body(R"("temperature": 2.01)")), "temperature");
  EXPECT_EQ(field_of(body(R"("temperature": 2)")), "(none)");
  EXPECT_EQ(field_of(body(R"("n": 17)")), "n");
  EXPECT_EQ(field_of(body(R"("n": 16)")), "(none)");
  EXPECT_EQ(field_of(body(R"("logprobs": true, "top_logprobs": 21)")), "top_logprobs");
  EXPECT_EQ(field_of(body(R"("logprobs": true, "top_logprobs": 20)")), "(none)");
  EXPECT_EQ(field_of(body(R"("top_logprobs": 1)")), "top_logprobs");
  EXPECT_EQ(field_of(body(R"("max_tokens": 0)")), "max_tokens");
  EXPECT_EQ(field_of(body(R"("max_tokens": "5")")), "max_tokens");
  EXPECT_EQ(field_of(body(R"("stop": ["a", ""])")), "stop");
  EXPECT_EQ(field_of(body(R"("stop": ["a", 1])")), "stop[1]");
  EXPECT_EQ(field_of(body(R"("logit_bias": {"x": 1})")), "logit_bias");
  EXPECT_EQ(field_of(body(R"("logit_bias": {"1": 101})")), "logit_bias.1");
  EXPECT_EQ(field_of(body(R"("response_format": {"type": "xml"})")), "response_format.type");
  EXPECT_EQ(field_of(body(R"("stream_options": {"include_usage": 1})")), "stream_options.include_usage");
  EXPECT_EQ(field_of(body(R"("prediction": {"type": "content"})")), "prediction.content");
  EXPECT_EQ(field_of(body(R"("who_knows": {"deep": [1]}, "user": "u", "seed": null)")), "(none)");
}

TEST(ChatRequest, OneMessageOrToolBeyondTheLimitIsRefused) {
  Json messages = Json::array(), tools = Json::array();
  for (std::size_t i = 0; i < kMaxMessages; ++i) {
    messages.push_back(Json{{"role", "user"}, {"content", "a"}});
  }
  for (std::size_t i = 0; i < kMaxTools; ++i) tools.push_back(Json{{"function", {{"name", "f"}}}});
  EXPECT_EQ(field_of(Json{{"messages", messages}, {"tools", tools}}.dump()), "(none)");
  tools.push_back(tools[0]);
  EXPECT_EQ(field_of(Json{{"messages", messages}, {"tools", tools}}.dump()), "tools");
  messages.push_back(messages[0]);
  EXPECT_EQ(field_of(Json{{"messages", messages}}.dump()), "messages");
}

TEST(ChatRequest, ToolChoicesAreReadAndCheckedAgainstTheTools) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}},
                               {"type": "web_search"}], )";
  EXPECT_EQ(read(body(tools + R"("tool_choice": "required")"))->tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(read(body(tools + R"("tool_choice": "none")"))->tool_choice, ToolChoice::kNone);
  const Result<GenerateParams> named =
      read(body(tools + R"("tool_choice": {"type": "function", "function": {"name": "f"}})"));
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->named_tool, "f");
  EXPECT_EQ(Json::parse(named->tools).size(), 1U);
  EXPECT_EQ(field_of(body(tools + R"("tool_choice": {"type": "function", "function": {"name": "g"}})")),
            "tool_choice.function.name");
  EXPECT_EQ(field_of(body(R"("tool_choice": "required")")), "tool_choice");
  EXPECT_EQ(field_of(body(tools + R"("tool_choice": 1)")), "tool_choice");
}

TEST(ChatRequest, AllowedToolsAreTheOnlyOnesThatMayBeCalled) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}},
                               {"type": "custom", "custom": {"name": "g"}},
                               {"type": "function", "function": {"name": "h"}}], "tool_choice": )";
  const auto choice = [&](const std::string& mode, const std::string& list) {
    return tools + R"({"type": "allowed_tools", "allowed_tools": {"mode": ")" + mode + R"(", "tools": [)" +
           list + "]}}";
  };
  const std::string two =
      R"({"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "g"}})";
  const Result<GenerateParams> required = read(body(choice("required", two)));
  ASSERT_TRUE(required.ok()) << required.error().message;
  EXPECT_EQ(required->tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(required->allowed_tools, (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(read(body(choice("auto", two)))->tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(read(body(choice("auto", R"({"type": "web_search"})")))->tool_choice, ToolChoice::kNone);
  const std::string path = "tool_choice.allowed_tools.";
  EXPECT_EQ(field_of(body(choice("auto", R"({"type": "function", "function": {"name": "x"}})"))),
            path + "tools[0].function.name");
  EXPECT_EQ(field_of(body(choice("often", two))), path + "mode");
  EXPECT_EQ(field_of(body(choice("required", R"({"type": "web_search"})"))), path + "tools");
  EXPECT_EQ(field_of(body(tools + R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto"}})")),
            path + "tools");
  EXPECT_EQ(read(body(tools + R"({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "h"}]})"))
                ->allowed_tools,
            (std::vector<std::string>{"h"}));
}

TEST(ChatRequest, CustomToolsAreFunctionsOfOneText) {
  const Result<GenerateParams> call = read(R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}]},
      {"role": "tool", "tool_call_id": "c", "content": null}],
    "tools": [{"type": "custom", "custom": {"name": "patch", "description": "d", "format": {"type": "grammar",
               "grammar": {"syntax": "regex", "definition": "a+"}}}}],
    "tool_choice": {"type": "custom", "custom": {"name": "patch"}}})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const Json function = Json::parse(call->tools)[0]["function"];
  EXPECT_EQ(function["parameters"]["required"][0], "input");
  EXPECT_TRUE(call->custom_tools.contains("patch"));
  ASSERT_EQ(call->text_formats.size(), 1U);
  EXPECT_EQ(call->text_formats[0].field, "tools[0].custom.format.grammar.definition");
  EXPECT_EQ(call->named_tool, "patch");
  const Json list = Json::parse(call->messages);
  EXPECT_EQ(list[1]["tool_calls"][0]["function"]["arguments"]["input"], "*** Begin");
  EXPECT_EQ(list[2]["content"], "");
}

TEST(ChatRequest, HostedToolsAreLeftOutAndCounted) {
  const Result<GenerateParams> call =
      read(body(R"("tools": [{"type": "web_search"}, {"type": "web_search"}, {"type": "mcp"}])"));
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(call->tools.empty());
  EXPECT_EQ(call->notes.skipped.at("web_search"), 2);
  EXPECT_EQ(call->notes.skipped.at("mcp"), 1);
}

TEST(ChatRequest, FunctionsAreToolsInTheOldShape) {
  const Result<GenerateParams> call =
      read(body(R"("functions": [{"name": "f"}], "function_call": {"name": "f"})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_TRUE(call->legacy_functions);
  EXPECT_FALSE(call->parallel_tools);
  EXPECT_EQ(call->named_tool, "f");
  EXPECT_EQ(Json::parse(call->tools)[0]["function"]["name"], "f");
  EXPECT_EQ(field_of(body(R"("functions": [{}])")), "functions[0].name");
}

TEST(ChatRequest, EffortAndTemplateVariablesDecideAboutThinking) {
  EXPECT_EQ(read(body(""))->think, std::nullopt);
  EXPECT_EQ(read(body(R"("reasoning_effort": "none")"))->think, false);
  EXPECT_EQ(read(body(R"("reasoning_effort": "high")"))->think, true);
  const Result<GenerateParams> call =
      read(body(R"("chat_template_kwargs": {"enable_thinking": false, "x": 1}, "reasoning_effort": "low")"));
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->think, false);
  EXPECT_EQ(Json::parse(call->template_variables)["x"], 1);
  EXPECT_EQ(read(body(R"("reasoning_effort": "xhigh")"))->effort, "xhigh");
  EXPECT_EQ(read(body(R"("reasoning_effort": "none")"))->effort, "");
  EXPECT_EQ(read(body(R"("reasoning_effort": "default")"))->think, std::nullopt);
  EXPECT_EQ(field_of(body(R"("reasoning_effort": "enormous")")), "reasoning_effort");
}

TEST(ChatRequest, ThePredictionIsJoined) {
  EXPECT_EQ(read(body(R"("prediction": {"type": "content", "content": "ab"})"))->predicted, "ab");
  EXPECT_EQ(read(body(R"("prediction": {"content": [{"type": "text", "text": "a"},
                         {"type": "text", "text": "b"}]})"))
                ->predicted,
            "ab");
}

std::vector<test::Frame> streamed(const std::string& rest, const std::vector<Event>& events) {
  const ModelInfo model_info = test::model_info();
  ChatWriter writer(model_info, *read(body(rest)), ResponseMeta{"0a", 1, 2, ""}, 1);
  std::string out;
  writer.begin(out);
  for (const Event& event : events) writer.add(0, event, out);
  writer.keep_alive(out);
  writer.end(out);
  return test::frames(out);
}

TEST(ChatWriter, FramesComeInOrderAndTheRoleOnce) {
  const std::vector<test::Frame> frames =
      streamed(R"("stream_options": {"include_usage": true})",
               {test::reasoning("r"), test::text("a"), test::tool_begin("f"), test::tool_arguments("{}"),
                test::tool_end(), test::end_event(Finish::kStop)});
  ASSERT_EQ(frames.size(), 8U);
  for (std::size_t i = 0; i < 6; ++i) {
    const Json json = frames[i].data();
    EXPECT_EQ(json["id"], "chatcmpl-0a") << i;
    EXPECT_EQ(json["object"], "chat.completion.chunk") << i;
    EXPECT_TRUE(json["usage"].is_null()) << i;
    EXPECT_EQ(json["choices"][0]["delta"].contains("role"), i == 0) << i;
    EXPECT_EQ(json["choices"][0]["finish_reason"].is_null(), i != 5) << i;
  }
  const auto delta = [&](std::size_t i) { return frames[i].data()["choices"][0]["delta"]; };
  EXPECT_TRUE(delta(0)["content"].is_null());
  EXPECT_EQ(delta(1)["reasoning_content"], "r");
  EXPECT_EQ(delta(2)["content"], "a");
  EXPECT_EQ(delta(3)["tool_calls"][0]["function"]["name"], "f");
  EXPECT_TRUE(delta(3)["tool_calls"][0].contains("id"));
  EXPECT_EQ(delta(4)["tool_calls"][0]["function"]["arguments"], "{}");
  EXPECT_FALSE(delta(4)["tool_calls"][0].contains("id"));
  EXPECT_EQ(frames[5].data()["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_TRUE(frames[6].data()["choices"].empty());
  EXPECT_EQ(frames[6].data()["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
  EXPECT_TRUE(frames[7].data().is_null());
}

TEST(ChatWriter, TheFirstFrameSaysWhetherContentFollows) {
  const auto first = [](const std::vector<Event>& events) {
    return streamed("", events).front().data()["choices"][0]["delta"];
  };
  const Event end = test::end_event(Finish::kStop);
  EXPECT_EQ(first({test::text("a"), end})["content"], "");
  EXPECT_EQ(first({end})["content"], "");
  EXPECT_TRUE(
      first({test::tool_begin("f"), test::tool_arguments("{}"), test::tool_end(), end})["content"].is_null());
  EXPECT_EQ(first({test::tool_begin("f"), end})["role"], "assistant");
}

TEST(ChatWriter, ACustomToolGetsItsText) {
  const std::string tools = R"("tools": [{"type": "custom", "custom": {"name": "p"}}])";
  const std::vector<Event> events{test::tool_begin("p"), test::tool_arguments("{\"input\": \"a\\"),
                                  test::tool_arguments("nb\"}"), test::tool_end(),
                                  test::end_event(Finish::kStop)};
  const std::vector<test::Frame> frames = streamed(tools, events);
  std::string text;
  for (const test::Frame& frame : frames) {
    const Json json = frame.data();
    if (json.is_null() || json["choices"].empty() || !json["choices"][0]["delta"].contains("tool_calls"))
      continue;
    const Json call = json["choices"][0]["delta"]["tool_calls"][0];
    EXPECT_FALSE(call.contains("function"));
    text += call["custom"]["input"].get<std::string>();
    if (call.contains("id")) {
      EXPECT_EQ(call["type"], "custom");
    }
  }
  EXPECT_EQ(text, "a\nb");
  const ModelInfo model_info = test::model_info();
  ChatWriter writer(model_info, *read(body(tools)), ResponseMeta{"0a", 1, 2, ""}, 1);
  std::string unused;
  for (const Event& event : events) writer.add(0, event, unused);
  const Json call = Json::parse(writer.reply().body)["choices"][0]["message"]["tool_calls"][0];
  EXPECT_EQ(call["custom"]["input"], "a\nb");
  EXPECT_EQ(call["type"], "custom");
}

TEST(ChatWriter, WithoutIncludeUsageNoFrameIsWithoutChoices) {
  const std::vector<test::Frame> frames = streamed("", {test::text("a"), test::end_event(Finish::kLength)});
  ASSERT_EQ(frames.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(frames[i].data()["choices"].size(), 1U);
    EXPECT_FALSE(frames[i].data().contains("usage"));
  }
  EXPECT_EQ(frames[2].data()["choices"][0]["finish_reason"], "length");
}

TEST(ChatWriter, AFailureIsTheLastFrame) {
  Event failure = test::end_event(Finish::kError);
  failure.error = {Code::kExhausted, "no memory"};
  const std::vector<test::Frame> frames = streamed("", {test::text("a"), failure});
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(frames[2].data()["error"]["message"], "no memory");
  EXPECT_EQ(streamed("", {failure}).front().data()["error"]["message"], "no memory");
}

TEST(ChatWriter, AFailureOfTheEngineKeepsItsCode) {
  const ModelInfo model_info = test::model_info();
  const auto status = [&](Finish finish, const Error& error) {
    ChatWriter writer(model_info, *read(body("")), ResponseMeta{"0a", 1, 2, ""}, 1);
    Event failure = test::end_event(finish);
    failure.error = error;
    std::string unused;
    writer.add(0, failure, unused);
    const HttpResponse reply = writer.reply();
    EXPECT_EQ(Json::parse(reply.body)["error"]["message"], error.message);
    return reply.status;
  };
  EXPECT_EQ(status(Finish::kError, {Code::kInvalid, "the grammar stopped"}), 400);
  EXPECT_EQ(status(Finish::kError, {Code::kIo, "the backend failed"}), 500);
  EXPECT_EQ(status(Finish::kCancelled, {Code::kCancelled, "nobody read"}), 503);
  EXPECT_EQ(status(Finish::kError, {Code::kExhausted, "no memory"}), 507);
}

TEST(ChatWriter, FunctionsAreAnsweredInTheOldShape) {
  const std::vector<test::Frame> frames = streamed(
      R"("functions": [{"name": "f"}])",
      {test::tool_begin("f"), test::tool_arguments("{}"), test::tool_end(), test::end_event(Finish::kStop)});
  ASSERT_EQ(frames.size(), 5U);
  EXPECT_EQ(frames[1].data()["choices"][0]["delta"]["function_call"]["name"], "f");
  EXPECT_EQ(frames[2].data()["choices"][0]["delta"]["function_call"]["arguments"], "{}");
  EXPECT_EQ(frames[3].data()["choices"][0]["finish_reason"], "function_call");
}

TEST(ChatWriter, WholeAnswersHaveEveryPart) {
  const ModelInfo model_info = test::model_info();
  ChatWriter writer(model_info, *read(body(R"("n": 2)")), ResponseMeta{"0a", 1, 2, ""}, 2);
  std::string unused;
  for (const Event& event : {test::reasoning("r"), test::tool_begin("f"), test::tool_arguments("{}"),
                             test::tool_end(), test::end_event(Finish::kStop)}) {
    writer.add(1, event, unused);
  }
  writer.add(0, test::text("a"), unused);
  writer.add(0, test::end_event(Finish::kStop), unused);
  const Json json = Json::parse(writer.reply().body);
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(json["choices"][1]["message"]["content"].is_null());
  EXPECT_EQ(json["choices"][1]["message"]["reasoning_content"], "r");
  EXPECT_EQ(json["choices"][1]["message"]["tool_calls"][0]["function"]["arguments"], "{}");
  EXPECT_EQ(json["choices"][1]["finish_reason"], "tool_calls");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(json["usage"]["completion_tokens"], 10);
}

}  // namespace
}  // namespace ft::api::chat_test
