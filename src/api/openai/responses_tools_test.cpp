#include "api/openai/responses_tools.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/openai/responses.h"
#include "api/openai/responses_request.h"
#include "api/openai/responses_writer.h"
#include "tests/api_events.h"

namespace ft::api::responses_tools_test {
namespace {

Result<ResponsesRequest> read(const std::string& body) {
  FT_ASSIGN(const Json json, parse_body(body));
  return read_responses(json, nullptr, {});
}

std::string field_of(const std::string& body) {
  const Result<ResponsesRequest> request = read(body);
  return request.ok() ? "(none)" : request.error().field;
}

/// A body with these tools and, unless empty, a tool choice.
std::string with_tools(const std::string& tools, const std::string& choice = "") {
  return R"({"input": "x", "tools": )" + tools + (choice.empty() ? "" : R"(, "tool_choice": )" + choice) +
         "}";
}

std::vector<std::string> names(const ResponsesRequest& request) {
  std::vector<std::string> found;
  for (const Json& tool : Json::parse(request.call.tools)) found.push_back(tool["function"]["name"]);
  return found;
}

using Names = std::vector<std::string>;

constexpr const char* kShop =
    R"({"type": "namespace", "name": "mcp__shop", "description": "A shop.", "tools": [
    {"type": "function", "name": "find", "description": "Finds.", "strict": true, "defer_loading": true,
     "parameters": {"type": "object", "properties": {}}},
    {"type": "custom", "name": "note", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}},
    {"type": "mystery", "name": "other"}]})";

TEST(ResponsesTools, ANamespacesToolsAreOfferedWithJoinedNames) {
  const Result<ResponsesRequest> request =
      read(with_tools("[" + std::string(kShop) + R"(, {"type": "function", "name": "find"},
          {"type": "namespace", "name": "crm__", "tools": [{"type": "function", "name": "find"}]}])"));
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(names(*request), (Names{"mcp__shop__find", "mcp__shop__note", "find", "crm__find"}));
  const Json tools = Json::parse(request->call.tools);
  EXPECT_EQ(tools[0]["function"]["description"], "(Tools of mcp__shop: A shop.)\nFinds.");
  EXPECT_FALSE(tools[0]["function"].contains("defer_loading"));
  EXPECT_EQ(tools[1]["function"]["description"], "");
  EXPECT_TRUE(request->call.strict_tools);
  EXPECT_TRUE(request->call.custom_tools.contains("mcp__shop__note"));
  ASSERT_EQ(request->call.text_formats.size(), 1U);
  EXPECT_EQ(request->call.text_formats[0].tool, "mcp__shop__note");
  EXPECT_EQ(request->call.notes.skipped.at("mystery"), 1);
}

TEST(ResponsesTools, AJoinedNameThatIsTakenGetsAnother) {
  const Result<ResponsesRequest> request = read(with_tools(
      R"([{"type": "namespace", "name": "a", "tools": [{"type": "function", "name": "b"}]},
          {"type": "function", "name": "a__b"}, {"type": "function", "name": "shell"}, {"type": "shell"}])"));
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(names(*request), (Names{"a__b_", "a__b", "shell", "shell_"}));
}

TEST(ResponsesTools, CallsInTheHistoryHaveTheOfferedNames) {
  const Result<ResponsesRequest> request = read(R"({"input": [{"role": "user", "content": "x"},
      {"type": "function_call", "call_id": "1", "name": "find", "namespace": "mcp__shop", "arguments": "{}"},
      {"type": "function_call", "call_id": "2", "name": "find", "arguments": "{}"},
      {"type": "custom_tool_call", "call_id": "3", "name": "gone", "namespace": "crm", "input": ""}],
    "tools": [)" + std::string(kShop) + "]}");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const Json calls = Json::parse(request->call.messages)[1]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["name"], "mcp__shop__find");
  EXPECT_EQ(calls[1]["function"]["name"], "find");
  EXPECT_EQ(calls[2]["function"]["name"], "crm__gone");
}

TEST(ResponsesTools, WhatASearchHasFoundIsOfferedOnce) {
  const std::string search = R"({"type": "tool_search_output", "call_id": "1", "tools": [)" +
                             std::string(kShop) + R"(, {"type": "function", "name": "plain"}]})";
  const Result<ResponsesRequest> request = read(
      R"({"input": [{"role": "user", "content": "x"}, )" + search + "," + search +
      R"(], "tools": [{"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(names(*request), (Names{"tool_search", "mcp__shop__find", "mcp__shop__note", "plain"}));
  EXPECT_EQ(Json::parse(request->call.messages)[1]["content"],
            R"(Found tools: ["mcp__shop__find","mcp__shop__note","mcp__shop__other","plain"])");
}

TEST(ResponsesTools, OnlyToolsOfTheClientAreOffered) {
  const Result<ResponsesRequest> request = read(with_tools(
      R"([{"type": "tool_search"}, {"type": "shell", "environment": {"type": "container_auto"}},
          {"type": "shell", "environment": {"type": "local"}}, {"type": "local_shell"},
          {"type": "apply_patch"}, {"type": "computer"}])"));
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(names(*request), (Names{"shell", "local_shell", "apply_patch"}));
  EXPECT_TRUE(request->call.strict_tools);
  EXPECT_EQ(request->call.notes.skipped.at("tool_search"), 1);
  EXPECT_EQ(request->call.notes.skipped.at("shell"), 1);
  EXPECT_EQ(request->call.notes.skipped.at("computer"), 1);
}

TEST(ResponsesTools, AChoiceMayNameANamespacesTool) {
  const std::string tools = "[" + std::string(kShop) +
                            R"(, {"type": "namespace", "name": "crm", "tools": [
      {"type": "function", "name": "find"}, {"type": "function", "name": "only"}]},
      {"type": "tool_search", "execution": "client"}, {"type": "apply_patch"}])";
  const auto named = [&](const std::string& choice) {
    const Result<ResponsesRequest> request = read(with_tools(tools, choice));
    return request.ok() ? request->call.named_tool : request.error().field;
  };
  EXPECT_EQ(named(R"({"type": "function", "name": "find", "namespace": "crm"})"), "crm__find");
  EXPECT_EQ(named(R"({"type": "function", "name": "crm__find"})"), "crm__find");
  EXPECT_EQ(named(R"({"type": "function", "name": "only"})"), "crm__only");
  EXPECT_EQ(named(R"({"type": "custom", "name": "note"})"), "mcp__shop__note");
  EXPECT_EQ(named(R"({"type": "tool_search"})"), "tool_search");
  EXPECT_EQ(named(R"({"type": "apply_patch"})"), "apply_patch");
  EXPECT_EQ(named(R"({"type": "web_search"})"), "");
  EXPECT_EQ(named(R"({"type": "function", "name": "find"})"), "tool_choice.name");  // of which namespace?
  EXPECT_EQ(named(R"({"type": "function", "name": "only", "namespace": "mcp__shop"})"), "tool_choice.name");
  const Result<ResponsesRequest> allowed = read(with_tools(
      tools, R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "namespace", "name": "crm"},
                 {"type": "tool_search"}]})"));
  ASSERT_TRUE(allowed.ok()) << allowed.error().message;
  EXPECT_EQ(allowed->call.allowed_tools, (Names{"crm__find", "crm__only", "tool_search"}));
}

TEST(ResponsesTools, WhatIsWrongInANamespaceIsNamed) {
  const auto field = [](const std::string& tools) { return field_of(with_tools(tools)); };
  EXPECT_EQ(field(R"([{"type": "namespace", "tools": []}])"), "tools[0].name");
  EXPECT_EQ(field(R"([{"type": "namespace", "name": "a", "tools": {}}])"), "tools[0].tools");
  EXPECT_EQ(field(R"([{"type": "namespace", "name": "a", "tools": [5]}])"), "tools[0].tools[0]");
  EXPECT_EQ(field(R"([{"type": "namespace", "name": "a", "tools": [{"type": "function"}]}])"),
            "tools[0].tools[0].name");
  EXPECT_EQ(field(R"([{"type": "tool_search", "execution": "cloud"}])"), "tools[0].execution");
  EXPECT_EQ(field_of(R"({"input": [{"role": "user", "content": "x"},
      {"type": "additional_tools", "tools": [{"type": "function", "name": "f", "parameters": 5}]}]})"),
            "input[1].tools[0].parameters");
}

TEST(ResponsesTools, OneToolBeyondTheLimitIsRefusedAlsoInANamespace) {
  Json inner = Json::array();
  for (std::size_t i = 0; i < kMaxTools; ++i) {
    inner.push_back(Json{{"type", "function"}, {"name", "f" + std::to_string(i)}});
  }
  Json tools = Json::array({Json{{"type", "namespace"}, {"name", "a"}, {"tools", inner}}});
  EXPECT_EQ(field_of(with_tools(tools.dump())), "(none)");
  tools.push_back(Json{{"type", "function"}, {"name", "g"}});
  EXPECT_EQ(field_of(with_tools(tools.dump())), "tools");
}

/// The stream of these events, and the same answer as it is stored.
std::vector<test::Frame> streamed(const ModelInfo& model_info, const std::string& body,
                                  const std::vector<Event>& events) {
  Result<ResponsesRequest> request = read(body);
  EXPECT_TRUE(request.ok());
  ResponsesWriter writer(model_info, std::move(*request), ResponseMeta{"0a", 1, 2, ""});
  std::string out;
  writer.begin(out);
  for (const Event& event : events) writer.add(0, event, out);
  writer.end(out);
  std::vector<test::Frame> frames = test::frames(out);
  const auto replayed = stored_response_reply(model_info, "resp_0a", Caller{}, {.stream = "true"});
  EXPECT_TRUE(replayed.ok());
  const std::vector<test::Frame> again = replayed.ok() ? test::frames(replayed->body) : frames;
  EXPECT_EQ(again.size(), frames.size());
  for (std::size_t i = 0; i < std::min(again.size(), frames.size()); ++i) {
    EXPECT_EQ(again[i].data(), frames[i].data()) << i;
  }
  return frames;
}

std::vector<Event> call_of(const std::string& name, const std::string& arguments) {
  return {test::tool_begin(name), test::tool_arguments(arguments.substr(0, 3)),
          test::tool_arguments(arguments.substr(3)), test::tool_end(), test::end_event(Finish::kStop)};
}

TEST(ResponsesTools, ACallHasItsNamespaceInEveryEvent) {
  const ModelInfo model_info = test::model_info();
  const std::string body = with_tools("[" + std::string(kShop) + "]");
  const auto frames = streamed(model_info, body, call_of("mcp__shop__find", R"({"a":1})"));
  ASSERT_EQ(frames.size(), 8U);
  for (const std::size_t i : {2U, 6U}) {
    EXPECT_EQ(frames[i].data()["item"]["type"], "function_call");
    EXPECT_EQ(frames[i].data()["item"]["name"], "find");
    EXPECT_EQ(frames[i].data()["item"]["namespace"], "mcp__shop");
  }
  const Json custom = streamed(model_info, body, call_of("mcp__shop__note", R"({"input":"aa"})"))
                          .back()
                          .data()["response"]["output"][0];
  EXPECT_EQ(custom["type"], "custom_tool_call");
  EXPECT_EQ(custom["name"], "note");
  EXPECT_EQ(custom["namespace"], "mcp__shop");
  EXPECT_EQ(custom["input"], "aa");
  const Json plain =
      streamed(model_info, with_tools(R"([{"type": "function", "name": "f"}])"), call_of("f", R"({"a":1})"))
          .back()
          .data()["response"]["output"][0];
  EXPECT_FALSE(plain.contains("namespace"));
}

TEST(ResponsesTools, ACallOfAClientsToolIsItsOwnItem) {
  const ModelInfo model_info = test::model_info();
  const std::string body = with_tools(R"([{"type": "tool_search", "execution": "client"}, {"type": "shell"},
                                          {"type": "local_shell"}, {"type": "apply_patch"}])");
  const auto item = [&](const std::string& name, const std::string& arguments) {
    const auto frames = streamed(model_info, body, call_of(name, arguments));
    EXPECT_EQ(frames.size(), 5U);  // no deltas: the item is written once it is whole
    EXPECT_EQ(frames[2].event, "response.output_item.added");
    EXPECT_EQ(frames[3].event, "response.output_item.done");
    EXPECT_EQ(frames[3].data()["item"], frames[4].data()["response"]["output"][0]);
    return frames[3].data()["item"];
  };
  const Json search = item("tool_search", R"({"query":"orders","limit":3})");
  EXPECT_EQ(search["type"], "tool_search_call");
  EXPECT_EQ(search["execution"], "client");
  EXPECT_EQ(search["arguments"], Json::parse(R"({"query":"orders","limit":3})"));
  EXPECT_EQ(search["call_id"].get<std::string>().substr(0, 5), "call_");
  EXPECT_EQ(item("shell", R"({"commands":["ls"]})")["action"]["commands"][0], "ls");
  const Json local = item("local_shell", R"({"command":["ls","-l"]})");
  EXPECT_EQ(local["action"], Json::parse(R"({"type":"exec","env":{},"command":["ls","-l"]})"));
  const Json patch = item("apply_patch", R"({"type":"delete_file","path":"a","diff":""})");
  EXPECT_EQ(patch["type"], "apply_patch_call");
  EXPECT_EQ(patch["operation"], Json::parse(R"({"type":"delete_file","path":"a"})"));
}

TEST(ResponsesTools, ACallOfAClientsToolThatWasCutIsNotWritten) {
  const ModelInfo model_info = test::model_info();
  const auto frames =
      streamed(model_info, with_tools(R"([{"type": "shell"}])"),
               {test::text("I look."), test::tool_begin("shell"), test::tool_arguments(R"({"commands":["l)"),
                test::end_event(Finish::kLength)});
  const Json response = frames.back().data()["response"];
  EXPECT_EQ(response["status"], "incomplete");
  ASSERT_EQ(response["output"].size(), 1U);
  EXPECT_EQ(response["output"][0]["type"], "message");
}

}  // namespace
}  // namespace ft::api::responses_tools_test
