#include "api/openai/responses.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/openai/responses_items.h"
#include "api/openai/responses_request.h"
#include "api/openai/responses_writer.h"
#include "tests/api_events.h"

namespace ft::api::responses_test {
namespace {

Result<ResponsesRequest> read(const std::string& body, ResponseStore* store = nullptr) {
  FT_ASSIGN(const Json json, parse_body(body));
  return read_responses(json, store, {});
}

Json messages(const std::string& body) {
  Result<ResponsesRequest> request = read(body);
  EXPECT_TRUE(request.ok()) << (request.ok() ? "" : request.error().message);
  return request.ok() ? Json::parse(request->call.messages) : Json();
}

std::string field_of(const std::string& body) {
  const Result<ResponsesRequest> request = read(body);
  return request.ok() ? "(none)" : request.error().field;
}

TEST(ResponsesRequest, ATextIsOneMessageAndInstructionsComeFirst) {
  const Json list = messages(R"({"input": "Hi", "instructions": "Be brief."})");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["role"], "system");
  EXPECT_EQ(list[0]["content"], "Be brief.");
  EXPECT_EQ(list[1]["role"], "user");
  EXPECT_EQ(list[1]["content"], "Hi");
}

TEST(ResponsesRequest, ReasoningTextAndCallsOfATurnAreOneMessage) {
  const Json list = messages(R"({"input": [
    {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A moment."}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\": \"Oslo\"}"},
    {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{\"city\": \"Rome\"}"},
    {"type": "function_call_output", "call_id": "c1", "output": "cold"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "warm"}]}
  ]})");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[1]["role"], "assistant");
  EXPECT_EQ(list[1]["reasoning_content"], "Look.");
  EXPECT_EQ(list[1]["content"], "A moment.");
  ASSERT_EQ(list[1]["tool_calls"].size(), 2U);
  EXPECT_EQ(list[1]["tool_calls"][1]["function"]["arguments"]["city"], "Rome");
  EXPECT_EQ(list[2]["role"], "tool");
  EXPECT_EQ(list[2]["tool_call_id"], "c1");
  EXPECT_EQ(list[3]["content"][0]["text"], "warm");
}

TEST(ResponsesRequest, ReasoningAfterACallBeginsANewMessage) {
  const Json list = messages(R"({"input": [
    {"role": "user", "content": "a"},
    {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Next."}], "summary": []},
    {"type": "function_call", "call_id": "c2", "name": "f", "arguments": ""},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"}
  ]})");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1]["tool_calls"][0]["function"]["arguments"]["input"], "*** Begin");
  EXPECT_EQ(list[2]["reasoning_content"], "Next.");
  EXPECT_EQ(list[2]["tool_calls"][0]["function"]["arguments"], Json::object());
}

TEST(ResponsesRequest, CustomToolsAreFunctionsOfOneTextAndHostedOnesAreLeftOut) {
  const Result<ResponsesRequest> request = read(R"({"input": "x", "tools": [
    {"type": "web_search"},
    {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true},
    {"type": "custom", "name": "apply_patch", "description": "Edits.",
     "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"a\""}},
    {"type": "namespace", "name": "mcp", "tools": []}
  ], "tool_choice": {"type": "custom", "name": "apply_patch"}, "parallel_tool_calls": false})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const Json tools = Json::parse(request->call.tools);
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_EQ(tools[0]["function"]["name"], "f");
  EXPECT_EQ(tools[1]["function"]["parameters"]["required"][0], "input");
  EXPECT_TRUE(request->call.custom_tools.contains("apply_patch"));
  EXPECT_FALSE(request->call.custom_tools.contains("f"));
  EXPECT_EQ(request->call.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(request->call.named_tool, "apply_patch");
  EXPECT_FALSE(request->call.parallel_tools);
  EXPECT_EQ(Json::parse(request->echo)["tools"].size(), 4U);
}

TEST(ResponsesRequest, CodexsOwnCallsStayInItsHistory) {
  const Json list = messages(R"({"input": [
    {"role": "user", "content": "a"},
    {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "x"}},
    {"type": "tool_search_output", "call_id": "c1", "execution": "client",
     "tools": [{"type": "function", "name": "found", "parameters": {}}]},
    {"type": "local_shell_call", "id": "l1", "call_id": "c2", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "id": "c2", "output": "a.py"},
    {"type": "shell_call", "call_id": "c3", "action": {"commands": ["pwd"]}},
    {"type": "shell_call_output", "call_id": "c3", "output": [{"stdout": "/", "stderr": ""}]},
    {"type": "apply_patch_call", "call_id": "c4", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "apply_patch_call_output", "call_id": "c4", "status": "completed"}
  ]})");
  ASSERT_EQ(list.size(), 9U);
  EXPECT_EQ(list[1]["tool_calls"][0]["function"]["arguments"]["query"], "x");
  EXPECT_NE(list[2]["content"].get<std::string>().find("found"), std::string::npos);
  EXPECT_EQ(list[3]["tool_calls"][0]["function"]["name"], "local_shell");
  EXPECT_EQ(list[4]["content"], "a.py");
  EXPECT_EQ(list[6]["content"], R"([{"stdout":"/","stderr":""}])");
  EXPECT_EQ(list[7]["tool_calls"][0]["function"]["arguments"]["path"], "a");
  EXPECT_EQ(list[8]["content"], "completed");
}

TEST(ResponsesRequest, ItemsOfOtherServicesAreLeftOutAndCounted) {
  const Result<ResponsesRequest> request = read(R"({"input": [
    {"role": "user", "content": "a"}, {"type": "web_search_call", "id": "w"},
    {"type": "image_generation_call", "id": "i"},
    {"type": "compaction", "encrypted_content": "zz"}, {"type": "ghost_snapshot", "ghost_commit": {}},
    {"type": "tool_search_call", "execution": "server", "arguments": {}},
    {"type": "mcp_list_tools", "tools": []},
    {"type": "computer_call_output", "call_id": "c", "output": {}}, {"type": "configuration_update"},
    {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(Json::parse(request->call.messages).size(), 1U);
  EXPECT_EQ(request->call.notes.skipped.size(), 9U);
  EXPECT_EQ(request->call.notes.skipped.at("reasoning.encrypted_content"), 1);
}

TEST(ResponsesRequest, ToolsThatItemsBringAreOfferedOnce) {
  const Result<ResponsesRequest> request = read(R"({"input": [{"role": "user", "content": "a"},
    {"type": "tool_search_output", "call_id": "c", "tools": [{"type": "function", "name": "f"},
                                                             {"type": "function", "name": "g"}]},
    {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "g"}]}],
    "tools": [{"type": "function", "name": "f", "description": "mine"}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const Json tools = Json::parse(request->call.tools);
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_EQ(tools[0]["function"]["description"], "mine");
  EXPECT_EQ(tools[1]["function"]["name"], "g");
}

TEST(ResponsesRequest, AllowedToolsAreObeyed) {
  const std::string tools = R"({"input": "x", "tools": [{"type": "function", "name": "f"},
      {"type": "function", "name": "g"}],
      "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [)";
  const Result<ResponsesRequest> request =
      read(tools + R"({"type": "function", "name": "g"}, {"type": "mcp"}]}})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->call.allowed_tools, std::vector<std::string>{"g"});
  EXPECT_EQ(request->call.tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(field_of(tools + R"({"type": "function", "name": "h"}]}})"), "tool_choice.tools[0].name");
}

TEST(ResponsesRequest, TheFlatSchemaOfTextFormatIsRead) {
  const Result<ResponsesRequest> request = read(
      R"({"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "strict": true,
          "schema": {"type": "object"}}, "verbosity": "low"}, "max_output_tokens": 9})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->call.format, Format::kJsonSchema);
  EXPECT_EQ(request->call.schema, R"({"type":"object"})");
  EXPECT_EQ(request->call.max_tokens, 9);
}

TEST(ResponsesRequest, WhatIsWrongIsNamed) {
  EXPECT_EQ(field_of(R"({})"), "input");
  EXPECT_EQ(field_of(R"({"input": 5})"), "input");
  EXPECT_EQ(field_of(R"({"input": []})"), "input");
  EXPECT_EQ(field_of(R"({"input": [{"role": "wizard", "content": "x"}]})"), "input[0].role");
  EXPECT_EQ(field_of(R"({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})"),
            "input[0].content[0].image_url");
  EXPECT_EQ(field_of(R"({"input": [{"type": "function_call", "name": "f"}]})"), "input[0].call_id");
  EXPECT_EQ(field_of(R"({"input": [{"type": "function_call", "call_id": "c", "name": "f",
                      "arguments": [1]}]})"),
            "input[0].arguments");
  EXPECT_EQ(field_of(R"({"input": [{"type": "mystery"}]})"), "input[0].type");
  EXPECT_EQ(field_of(R"({"input": "x", "tools": [{"type": "web_search"}, {"type": "function"}]})"),
            "tools[1].name");
  EXPECT_EQ(field_of(R"({"input": "x", "max_output_tokens": 0})"), "max_output_tokens");
  EXPECT_EQ(field_of(R"({"input": "x", "background": true})"), "background");
  EXPECT_EQ(field_of(R"({"input": "x", "reasoning": {"effort": 3}})"), "reasoning.effort");
  EXPECT_EQ(field_of(R"({"input": "x", "text": {"format": {"type": "json_schema"}}})"), "text.format.schema");
}

TEST(ResponsesRequest, OneItemBeyondTheLimitIsRefused) {
  Json input = Json::array();
  for (std::size_t i = 0; i <= kMaxItems; ++i) input.push_back(Json{{"role", "user"}, {"content", "x"}});
  EXPECT_EQ(field_of(Json{{"input", input}}.dump()), "input");
  input.erase(input.begin());
  EXPECT_EQ(field_of(Json{{"input", input}}.dump()), "(none)");
}

TEST(ResponsesRequest, AReferenceIsTheStoredItem) {
  ResponseStore store;
  const std::string output = R"({"output": [
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}]})";
  ASSERT_TRUE(store.put("resp_1", {output, "[]", "[]", 0, {"rs_1", "fc_1"}}, {}).ok());
  const std::string body = R"({"input": [{"role": "user", "content": "a"},
    {"type": "item_reference", "id": "rs_1"}, {"type": "item_reference", "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c", "output": "x"}]})";
  const Result<ResponsesRequest> request = read(body, &store);
  ASSERT_TRUE(request.ok()) << request.error().message;
  const Json list = Json::parse(request->call.messages);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1]["reasoning_content"], "t");
  EXPECT_EQ(list[1]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(Json::parse(request->items)[1]["type"], "reasoning") << "a later response contains the item";
  const Result<ResponsesRequest> lost = read(body);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().field, "input[1].id");
  EXPECT_EQ(lost.error().code, Code::kNotFound);
}

TEST(ResponsesRequest, AnUnknownPreviousResponseIsNotFound) {
  ResponseStore store;
  const Result<ResponsesRequest> request =
      read(R"({"input": "x", "previous_response_id": "resp_no"})", &store);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().code, Code::kNotFound);
  EXPECT_EQ(request.error().field, "previous_response_id");
}

/// The complete stream of these events.
std::string streamed(const ModelInfo& model_info, const std::string& body, const std::vector<Event>& events) {
  Result<ResponsesRequest> request = read(body, model_info.responses.get());
  EXPECT_TRUE(request.ok());
  ResponsesWriter writer(model_info, std::move(*request), ResponseMeta{"0a", 1, 2, ""});
  std::string out;
  writer.begin(out);
  for (const Event& event : events) writer.add(0, event, out);
  writer.end(out);
  return out;
}

TEST(ResponsesWriter, EventsComeInTheOrderOfTheReferenceAndAreCounted) {
  const ModelInfo model_info = test::model_info();
  const std::vector<test::Frame> frames = test::frames(
      streamed(model_info, R"({"input": "x", "stream": true, "tools": [{"type": "function", "name": "f"}]})",
               {test::reasoning("Hm"), test::reasoning("m."), test::text("Wait"), test::text("."),
                test::tool_begin("f"), test::tool_arguments("{\"a\":"), test::tool_arguments("1}"),
                test::tool_end(), test::end_event(Finish::kStop)}));
  const std::vector<std::string> expected{"response.created",
                                          "response.in_progress",
                                          "response.output_item.added",
                                          "response.content_part.added",
                                          "response.reasoning_text.delta",
                                          "response.reasoning_text.delta",
                                          "response.reasoning_text.done",
                                          "response.content_part.done",
                                          "response.output_item.done",
                                          "response.output_item.added",
                                          "response.content_part.added",
                                          "response.output_text.delta",
                                          "response.output_text.delta",
                                          "response.output_text.done",
                                          "response.content_part.done",
                                          "response.output_item.done",
                                          "response.output_item.added",
                                          "response.function_call_arguments.delta",
                                          "response.function_call_arguments.delta",
                                          "response.function_call_arguments.done",
                                          "response.output_item.done",
                                          "response.completed"};
  ASSERT_EQ(frames.size(), expected.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].event, expected[i]) << i;
    EXPECT_EQ(frames[i].data()["type"], expected[i]) << i;
    EXPECT_EQ(frames[i].data()["sequence_number"], i);
  }
  const Json response = frames.back().data()["response"];
  EXPECT_EQ(response["status"], "completed");
  ASSERT_EQ(response["output"].size(), 3U);
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "Wait.");
  EXPECT_EQ(response["output"][2]["arguments"], "{\"a\":1}");
  EXPECT_EQ(response["output"][2]["id"], frames[17].data()["item_id"]);
  EXPECT_EQ(response["usage"]["total_tokens"], 12);
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 2);
}

TEST(ResponsesWriter, APauseIsAnEventAndChangesNoNumber) {
  const ModelInfo model_info = test::model_info();
  Result<ResponsesRequest> request = read(R"({"input": "x"})", model_info.responses.get());
  ASSERT_TRUE(request.ok());
  ResponsesWriter writer(model_info, std::move(*request), ResponseMeta{"0a", 1, 2, ""});
  std::string out, pause;
  writer.begin(out);
  writer.keep_alive(pause);
  writer.add(0, test::text("Wait"), out);
  writer.keep_alive(pause);
  writer.add(0, test::end_event(Finish::kStop), out);
  writer.end(out);
  const std::vector<test::Frame> frames = test::frames(out), pauses = test::frames(pause);
  ASSERT_EQ(pauses.size(), 2U);
  EXPECT_EQ(pauses[0].event, "response.in_progress");
  EXPECT_EQ(pauses[0].data(), frames[1].data());
  EXPECT_EQ(pauses[1].data()["sequence_number"], 4);
  EXPECT_EQ(pauses[1].data()["response"]["id"], "resp_0a");
  for (std::size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].data()["sequence_number"], i);
}

TEST(ResponsesWriter, ASummaryThatWasAskedForHasItsOwnEvents) {
  const ModelInfo model_info = test::model_info();
  const std::vector<test::Frame> frames = test::frames(
      streamed(model_info, R"({"input": "x", "reasoning": {"effort": "low", "summary": "auto"}})",
               {test::reasoning("Hm"), test::end_event(Finish::kStop)}));
  ASSERT_EQ(frames.size(), 9U);
  EXPECT_EQ(frames[3].event, "response.reasoning_summary_part.added");
  EXPECT_EQ(frames[4].event, "response.reasoning_summary_text.delta");
  EXPECT_EQ(frames[4].data()["summary_index"], 0);
  EXPECT_EQ(frames[8].data()["response"]["output"][0]["summary"][0]["text"], "Hm");
}

TEST(ResponsesWriter, ACustomToolGetsItsTextAndNotTheArguments) {
  const ModelInfo model_info = test::model_info();
  const std::vector<test::Frame> frames = test::frames(
      streamed(model_info, R"({"input": "x", "tools": [{"type": "custom", "name": "apply_patch"}]})",
               {test::tool_begin("apply_patch"), test::tool_arguments("{\"input\":\"*** "),
                test::tool_arguments("Begin\\n\"}"), test::tool_end(), test::end_event(Finish::kStop)}));
  ASSERT_EQ(frames.size(), 8U);
  EXPECT_EQ(frames[2].data()["item"]["type"], "custom_tool_call");
  EXPECT_EQ(frames[3].event, "response.custom_tool_call_input.delta");
  EXPECT_EQ(frames[3].data()["delta"], "*** ");
  EXPECT_EQ(frames[5].data()["input"], "*** Begin\n");
  EXPECT_EQ(frames[7].data()["response"]["output"][0]["input"], "*** Begin\n");
}

TEST(ResponsesWriter, TheLastEventSaysHowItEnded) {
  const ModelInfo model_info = test::model_info();
  const auto last = [&](const Event& end) {
    return test::frames(streamed(model_info, R"({"input": "x"})", {test::text("a"), end})).back();
  };
  const test::Frame incomplete = last(test::end_event(Finish::kLength));
  EXPECT_EQ(incomplete.event, "response.incomplete");
  EXPECT_EQ(incomplete.data()["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(incomplete.data()["response"]["output"][0]["status"], "incomplete");
  Event failure = test::end_event(Finish::kError);
  failure.error = {Code::kExhausted, "no memory"};
  const test::Frame failed = last(failure);
  EXPECT_EQ(failed.event, "response.failed");
  EXPECT_EQ(failed.data()["response"]["error"]["message"], "no memory");
}

TEST(ResponsesWriter, AnAnswerIsKeptWithItsHistoryUnlessStoreIsFalse) {
  const ModelInfo model_info = test::model_info();
  streamed(model_info, R"({"input": "one"})", {test::text("two"), test::end_event(Finish::kStop)});
  const Result<ResponsesRequest> next =
      read(R"({"input": "three", "previous_response_id": "resp_0a"})", model_info.responses.get());
  ASSERT_TRUE(next.ok()) << next.error().message;
  const Json list = Json::parse(next->call.messages);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1]["content"], "two");
  EXPECT_EQ(list[2]["content"], "three");
  ASSERT_TRUE(stored_response_reply(model_info, "resp_0a", {}).ok());
  EXPECT_TRUE(delete_response_reply(model_info, "resp_0a", {}).ok());
  EXPECT_FALSE(stored_response_reply(model_info, "resp_0a", {}).ok());
  streamed(model_info, R"({"input": "one", "store": false})", {test::end_event(Finish::kStop)});
  EXPECT_FALSE(stored_response_reply(model_info, "resp_0a", {}).ok());
}

TEST(ResponsesWriter, AnAnswerOfAnotherKeyDoesNotExist) {
  const ModelInfo model_info = test::model_info();
  const Caller mine{7, false}, other{8, false}, chief{9, true};
  ResponsesWriter writer(model_info, std::move(*read(R"({"input": "one"})")),
                         ResponseMeta{"0a", 1, 2, "", mine});
  std::string out;
  for (const Event& event : {test::text("two"), test::end_event(Finish::kStop)}) writer.add(0, event, out);
  (void)writer.reply();
  const Json next = Json::parse(R"({"input": "three", "previous_response_id": "resp_0a"})");
  ResponseStore* store = model_info.responses.get();
  EXPECT_TRUE(read_responses(next, store, mine).ok());
  EXPECT_TRUE(read_responses(next, store, chief).ok());
  EXPECT_EQ(read_responses(next, store, other).error().code, Code::kNotFound);
  EXPECT_EQ(responses_count_reply(model_info, next.dump(), other).error().code, Code::kNotFound);
  EXPECT_EQ(history_bytes(model_info, next.dump(), other), 0U);
  const StoredQuery items{.path = "/v1/responses/resp_0a/input_items"}, events{.stream = "true"};
  for (const StoredQuery& query : {StoredQuery{}, items, events}) {
    const auto refused = stored_response_reply(model_info, "resp_0a", other, query);
    EXPECT_EQ(refused.error().code, Code::kNotFound);
    EXPECT_TRUE(stored_response_reply(model_info, "resp_0a", mine, query).ok());
    EXPECT_TRUE(stored_response_reply(model_info, "resp_0a", chief, query).ok());
  }
  EXPECT_EQ(delete_response_reply(model_info, "resp_0a", other).error().message,
            delete_response_reply(model_info, "resp_0a", {}).error().message)
      << "as if it had never been";
  EXPECT_TRUE(stored_response_reply(model_info, "resp_0a", mine).ok());
  EXPECT_TRUE(delete_response_reply(model_info, "resp_0a", mine).ok());
}

TEST(ResponsesWriter, SealedReasoningComesBackFromAClientWithoutStoredResponses) {
  const ModelInfo model_info = test::model_info();
  const Json item =
      test::frames(streamed(model_info, R"({"input": "x", "store": false, "reasoning": {"summary": "auto"},
                                          "include": ["reasoning.encrypted_content"]})",
                            {test::reasoning("Hm"), test::text("a"), test::end_event(Finish::kStop)}))
          .back()
          .data()["response"]["output"][0];
  ASSERT_TRUE(item["encrypted_content"].is_string());
  const Json input{
      {{"role", "user"}, {"content", "x"}},
      {{"type", "reasoning"}, {"summary", Json::array()}, {"encrypted_content", item["encrypted_content"]}},
      {{"type", "message"}, {"role", "assistant"}, {"content", "a"}}};
  const Json list = messages(Json{{"input", input}}.dump());
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[1]["reasoning_content"], "Hm");
  EXPECT_EQ(list[1]["content"], "a");
}

TEST(ResponsesWriter, AStoredStreamIsTheSameStream) {
  const ModelInfo model_info = test::model_info();
  for (const char* request :
       {R"({"input": "x", "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]})",
        R"({"input": "x", "reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]})"}) {
    const std::string stream =
        streamed(model_info, request,
                 {test::reasoning("Hm"), test::reasoning("m."), test::text("Wait"), test::text("."),
                  test::tool_begin("f"), test::tool_arguments("{\"a\":"), test::tool_arguments("1}"),
                  test::tool_end(), test::tool_begin("c"), test::tool_arguments("{\"input\":\"a"),
                  test::tool_arguments("b\"}"), test::tool_end(), test::end_event(Finish::kStop)});
    const auto replayed = stored_response_reply(model_info, "resp_0a", {}, {.stream = "true"});
    ASSERT_TRUE(replayed.ok());
    EXPECT_EQ(replayed->type, "text/event-stream; charset=utf-8");
    const std::vector<test::Frame> then = test::frames(stream), now = test::frames(replayed->body);
    ASSERT_EQ(now.size(), then.size());
    for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i].data(), then[i].data()) << i;
    const auto rest =
        stored_response_reply(model_info, "resp_0a", {}, {.stream = "true", .starting_after = "5"});
    ASSERT_TRUE(rest.ok());
    EXPECT_EQ(test::frames(rest->body).front().data()["sequence_number"], 6);
    EXPECT_EQ(stored_response_reply(model_info, "resp_0a", {}, {.stream = "true", .starting_after = "x"})
                  .error()
                  .field,
              "starting_after");
  }
}

TEST(ResponsesWriter, InputItemsAreListedInPages) {
  const ModelInfo model_info = test::model_info();
  streamed(model_info, R"({"input": [{"role": "user", "content": "one"}, {"role": "user", "content": "two"},
                                     {"role": "user", "content": "three"}]})",
           {test::text("a"), test::end_event(Finish::kStop)});
  const auto page = [&](StoredQuery query) {
    query.path = "/v1/responses/resp_0a/input_items";
    const auto reply = stored_response_reply(model_info, "resp_0a", {}, query);
    return reply.ok() ? Json::parse(reply->body) : Json(reply.error().field);
  };
  const Json all = page({});
  ASSERT_EQ(all["data"].size(), 3U);
  EXPECT_EQ(all["data"][0]["content"][0]["text"], "three");
  EXPECT_EQ(all["data"][0]["content"][0]["type"], "input_text");
  const Json first = page({.limit = "2", .order = "asc"});
  EXPECT_EQ(first["data"][0]["content"][0]["text"], "one");
  EXPECT_TRUE(first["has_more"].get<bool>());
  const Json second = page({.limit = "2", .order = "asc", .after = first["last_id"].get<std::string>()});
  ASSERT_EQ(second["data"].size(), 1U);
  EXPECT_FALSE(second["has_more"].get<bool>());
  EXPECT_EQ(page({.limit = "101"}), "limit");
  EXPECT_EQ(page({.order = "up"}), "order");
  EXPECT_EQ(page({.after = "nothing"}), "after");
}

TEST(ResponsesWriter, StreamedAndWholeAnswersAreTheSame) {
  const ModelInfo model_info = test::model_info();
  const std::vector<Event> events{test::text("a"), test::text("b"), test::end_event(Finish::kStop)};
  const Json streaming =
      test::frames(streamed(model_info, R"({"input": "x"})", events)).back().data()["response"];
  Result<ResponsesRequest> request = read(R"({"input": "x"})");
  ASSERT_TRUE(request.ok());
  ResponsesWriter writer(model_info, std::move(*request), ResponseMeta{"0a", 1, 2, ""});
  std::string unused;
  for (const Event& event : events) writer.add(0, event, unused);
  Json whole = Json::parse(writer.reply().body);
  whole["output"][0]["id"] = streaming["output"][0]["id"];  // random
  EXPECT_EQ(whole, streaming);
}

}  // namespace
}  // namespace ft::api::responses_test
