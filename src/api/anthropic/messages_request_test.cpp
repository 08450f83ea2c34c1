#include "api/anthropic/messages_request.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/anthropic/message_blocks.h"
#include "api/fields.h"

namespace ft::api::messages_request_test {
namespace {

Json body_of(const std::string& members) {
  return Json::parse(R"({"model":"m","max_tokens":64,"messages":[{"role":"user","content":"Hi"}])" + members +
                     "}");
}

Result<GenerateParams> read(const std::string& members) {
  return read_messages_call(body_of(members), Purpose::kAnswer);
}

/// Converts a list of Anthropic messages to template messages.
std::string messages_of(const std::string& list) {
  const Result<AnthropicConversation> read = read_anthropic_messages(Json::parse(list), "messages");
  return read.ok() ? read->messages.dump() : read.error().message;
}

std::string field_of(const std::string& members) {
  const Result<GenerateParams> call = read(members);
  return call.ok() ? "(accepted)" : call.error().field;
}

TEST(MessagesRequest, ThinkingIsOffUnlessItIsAskedFor) {
  EXPECT_EQ(read("")->think, false);
  EXPECT_EQ(read(R"(,"thinking":{"type":"disabled"})")->think, false);
  EXPECT_EQ(read(R"(,"thinking":{"type":"adaptive"})")->think, true);
  const Result<GenerateParams> enabled = read(R"(,"thinking":{"type":"enabled","budget_tokens":32})");
  EXPECT_EQ(enabled->think, true);
  EXPECT_EQ(enabled->thinking_budget, 32);
  EXPECT_EQ(read("")->thinking_budget, -1);
}

TEST(MessagesRequest, ABudgetMustLeaveRoomForTheAnswer) {
  EXPECT_EQ(field_of(R"(,"thinking":{"type":"enabled","budget_tokens":63})"), "(accepted)");
  EXPECT_EQ(field_of(R"(,"thinking":{"type":"enabled","budget_tokens":64})"), "thinking.budget_tokens");
  EXPECT_EQ(field_of(R"(,"thinking":{"type":"enabled"})"), "thinking.budget_tokens");
}

TEST(MessagesRequest, MaxTokensIsNeededForAnAnswerAndNotForACount) {
  Json body = body_of("");
  body.erase("max_tokens");
  EXPECT_EQ(read_messages_call(body, Purpose::kAnswer).error().field, "max_tokens");
  EXPECT_TRUE(read_messages_call(body, Purpose::kCount).ok());
}

TEST(MessagesRequest, SamplingIsRead) {
  const Result<GenerateParams> call = read(
      R"(,"temperature":0.5,"top_p":0.9,"top_k":40,"stop_sequences":["END","\n\n"],"seed":7,"stream":true)");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->sampling.temperature, 0.5F);
  EXPECT_EQ(call->sampling.top_p, 0.9F);
  EXPECT_EQ(call->sampling.top_k, 40);
  EXPECT_EQ(call->seed, 7U);
  EXPECT_EQ(call->stops, (std::vector<std::string>{"END", "\n\n"}));
  EXPECT_TRUE(call->stream);
  EXPECT_EQ(call->max_tokens, 64);
}

TEST(MessagesRequest, WhatIsWrongIsNamed) {
  EXPECT_EQ(field_of(R"(,"temperature":1.5)"), "temperature");
  EXPECT_EQ(field_of(R"(,"top_k":"many")"), "top_k");
  EXPECT_EQ(field_of(R"(,"stop_sequences":[1])"), "stop_sequences[0]");
  EXPECT_EQ(field_of(R"(,"stop_sequences":"END")"), "stop_sequences");
  EXPECT_EQ(field_of(R"(,"system":7)"), "system");
  EXPECT_EQ(field_of(R"(,"system":[{"type":"text"}])"), "system[0].text");
  EXPECT_EQ(field_of(R"(,"tools":[{"name":"f"}])"), "tools[0].input_schema");
  EXPECT_EQ(field_of(R"(,"tools":[{"input_schema":{}}])"), "tools[0].name");
  EXPECT_EQ(field_of(R"(,"tool_choice":{"type":"any"})"), "tool_choice");
  EXPECT_EQ(field_of(R"(,"tool_choice":{"type":"tool","name":"f"})"), "tool_choice.name");
  EXPECT_EQ(field_of(R"(,"tool_choice":"auto")"), "tool_choice");
  EXPECT_EQ(field_of(R"(,"thinking":{"type":"deep"})"), "thinking.type");
  EXPECT_EQ(field_of(R"(,"output_config":{"format":{"type":"json_schema"}})"), "output_config.format.schema");
}

TEST(MessagesRequest, WhatIsUnknownIsTolerated) {
  EXPECT_EQ(field_of(R"(,"metadata":{"user_id":"u"},"context_management":{"edits":[]},"n":3,"container":"c",
                        "service_tier":"auto","cache_control":{"type":"ephemeral"},"stop":7,
                        "output_config":{"effort":"max"},"mcp_servers":[])"),
            "(accepted)");
}

TEST(MessagesRequest, CustomToolsBecomeFunctionsAndServerToolsAreLeftOut) {
  const Result<GenerateParams> call = read(R"(,"tools":[{"type":"web_search_20250305","name":"web_search"},
      {"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},
      {"type":"custom","name":"g","input_schema":{"type":"object"}}],
      "tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->tools, R"([{"type":"function","function":{"name":"f","description":"d",)"
                         R"("parameters":{"type":"object"}}},)"
                         R"({"type":"function","function":{"name":"g","parameters":{"type":"object"}}}])");
  EXPECT_EQ(call->tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(call->named_tool, "g");
  EXPECT_FALSE(call->parallel_tools);
}

TEST(MessagesRequest, AnOutputFormatIsAGrammar) {
  for (const char* members :
       {R"(,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})",
        R"(,"output_format":{"type":"json_schema","schema":{"type":"object"}})"}) {
    const Result<GenerateParams> call = read(members);
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(call->format, Format::kJsonSchema);
    EXPECT_EQ(call->schema, R"({"type":"object"})");
  }
}

TEST(MessagesRequest, BillingLinesLeaveTheSamePrompt) {
  const auto with = [](const std::string& system) {
    return read_messages_call(body_of(R"(,"system":)" + system), Purpose::kAnswer)->messages;
  };
  const std::string plain = with(R"("You help.")");
  EXPECT_EQ(plain, R"([{"role":"system","content":"You help."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(with(R"("x-anthropic-billing-header: cc_version=2.1; cch=00f12;\nYou help.")"), plain);
  EXPECT_EQ(with(R"([{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=a1b2c;"},
                     {"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}}])"),
            plain);
  EXPECT_EQ(with(R"("cch=77;\nYou help.")"), plain);
  // Only the leading lines are removed; a later mention stays.
  EXPECT_NE(with(R"("You help.\nx-anthropic-billing-header: 1")").find("billing"), std::string::npos);
}

TEST(MessageBlocks, ToolResultsAreMessagesInTheirOrder) {
  EXPECT_EQ(messages_of(R"([{"role":"user","content":[
      {"type":"tool_result","tool_use_id":"a","content":"1"},
      {"type":"tool_result","tool_use_id":"b","is_error":true,
       "content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},
      {"type":"tool_result","tool_use_id":"c"},
      {"type":"text","text":"go"},{"type":"text","text":"on","cache_control":{"type":"ephemeral"}}]}])"),
            R"([{"role":"tool","tool_call_id":"a","content":"1"},)"
            R"({"role":"tool","tool_call_id":"b","content":"Error: x\ny"},)"
            R"({"role":"tool","tool_call_id":"c","content":""},)"
            R"({"role":"user","content":"go\non"}])");
}

TEST(MessageBlocks, AnAssistantsTurnKeepsReasoningTextAndCallsApart) {
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":[
      {"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"zz"},
      {"type":"text","text":"A"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}},
      {"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"B"},
      {"type":"tool_use","id":"t","name":"f","input":{"b":1,"a":2}}]}])"),
            R"([{"role":"assistant","content":"AB","reasoning_content":"hm","tool_calls":[)"
            R"({"type":"function","function":{"name":"f","arguments":{"b":1,"a":2}},"id":"t"}]}])");
}

TEST(MessageBlocks, DocumentsOfTextAreRead) {
  EXPECT_EQ(messages_of(R"([{"role":"user","content":[{"type":"document","title":"T","context":"c",
      "source":{"type":"text","media_type":"text/plain","data":"body"}},{"type":"text","text":"q"}]}])"),
            R"([{"role":"user","content":"<document title=\"T\">\nc\nbody\n</document>\nq"}])");
  EXPECT_EQ(messages_of(R"([{"role":"user","content":[{"type":"search_result","title":"T","source":"u",
      "content":[{"type":"text","text":"found"}]}]}])"),
            R"([{"role":"user","content":)"
            R"("<search_result title=\"T\" source=\"u\">\nfound\n</search_result>"}])");
}

TEST(MessageBlocks, ImagesArePartsBetweenTexts) {
  const auto read = read_anthropic_messages(Json::parse(R"([{"role":"user","content":[
      {"type":"text","text":"a"},{"type":"text","text":"b"},
      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
      {"type":"text","text":"c"},
      {"type":"tool_result","tool_use_id":"t","is_error":true,"content":[
          {"type":"image","source":{"type":"base64","media_type":"image/png","data":"BBBB"}}]}]}])"),
                                            "messages");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->messages[0]["content"][0]["text"], "a\nb");
  EXPECT_EQ(read->messages[0]["content"][1]["url"], "data:image/png;base64,AAAA");
  EXPECT_EQ(read->messages[0]["content"][1]["at"], "messages[0].content[2]");
  EXPECT_EQ(read->messages[0]["content"][2]["text"], "c");
  EXPECT_EQ(read->messages[1]["role"], "tool");
  EXPECT_EQ(read->messages[1]["content"][0]["text"], "Error:");
  EXPECT_EQ(read->messages[1]["content"][1]["at"], "messages[0].content[4].content[0]");
}

TEST(MessageBlocks, WhatIsNoTextIsRefusedWithItsPlace) {
  const auto refused = [](const std::string& content) {
    return read_anthropic_messages(Json::parse(R"([{"role":"user","content":)" + content + "}]"), "messages");
  };
  const auto image = refused(R"([{"type":"text","text":"see"},{"type":"image","source":{}}])");
  EXPECT_EQ(image.error().code, Code::kInvalid);
  EXPECT_EQ(image.error().field, "messages[0].content[1].source.type");
  const auto inner =
      refused(R"([{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{}}]}])");
  EXPECT_EQ(inner.error().field, "messages[0].content[0].content[0].source.type");
  const auto pdf =
      refused(R"([{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":""}}])");
  EXPECT_EQ(pdf.error().code, Code::kUnsupported);
  EXPECT_EQ(pdf.error().field, "messages[0].content[0].source.type");
  EXPECT_EQ(refused(R"([{"type":"hologram"}])").error().field, "messages[0].content[0]");
  EXPECT_EQ(refused("7").error().field, "messages[0].content");
}

TEST(MessageBlocks, ASystemMessageInTheMiddleStaysThere) {
  EXPECT_EQ(messages_of(R"([{"role":"user","content":"a"},{"role":"system","content":"mind"},
                            {"role":"user","content":"b"}])"),
            R"([{"role":"user","content":"a"},{"role":"system","content":"mind"},)"
            R"({"role":"user","content":"b"}])");
}

TEST(MessageBlocks, BlocksOfOtherServicesAreLeftOutAndCounted) {
  const auto read = read_anthropic_messages(Json::parse(R"([
    {"role":"user","content":[{"type":"text","text":"hi"},{"type":"container_upload","file_id":"f"}]},
    {"role":"assistant","content":[{"type":"mcp_tool_use","id":"m","name":"x","server_name":"s","input":{}},
      {"type":"agent_tool_use","id":"n","name":"y","input":{}},
      {"type":"mcp_tool_result","tool_use_id":"m","content":[]},{"type":"redacted_thinking","data":"z"},
      {"type":"web_fetch_tool_result","tool_use_id":"w","content":{}},{"type":"compaction","content":null},
      {"type":"bash_code_execution_tool_result","tool_use_id":"b","content":{}},{"type":"fallback","to":{}},
      {"type":"text","text":"A"}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
      {"type":"tool_reference","tool_name":"f"},{"type":"text","text":"ok"}]}]}])"),
                                            "messages");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->messages.dump(), R"([{"role":"user","content":"hi"},{"role":"assistant","content":"A"},)"
                                   R"({"role":"tool","tool_call_id":"t","content":"ok"}])");
  EXPECT_EQ(read->notes.skipped.size(), 10U);
  EXPECT_EQ(
      messages_of(R"([{"role":"assistant","content":[{"type":"hologram"}]}])").find("messages[0].content[0]"),
      0U);
}

TEST(MessageBlocks, AStreamedCallInTwoBlocksIsOneCall) {
  const auto read = read_anthropic_messages(Json::parse(R"([{"role":"assistant","content":[
      {"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","input":{"x":1}}]}])"),
                                            "messages");
  ASSERT_TRUE(read.ok()) << read.error().message;
  const Json calls = Json::parse(read->messages.dump())[0]["tool_calls"];
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":[{"type":"tool_use","input":{"x":1}}]}])"),
            "messages[0].content[0].name: is missing");
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f",
      "input":{"y":2}},{"type":"tool_use","input":{"x":1}}]}])"),
            "messages[0].content[1].name: is missing");
}

TEST(MessageBlocks, ACompactionReplacesWhatIsBeforeIt) {
  EXPECT_EQ(messages_of(R"([{"role":"user","content":"old"},{"role":"assistant","content":[
      {"type":"text","text":"older"},
      {"type":"compaction","content":"They spoke."},{"type":"text","text":"Now"}]},
      {"role":"user","content":"new"}])"),
            R"([{"role":"user","content":"Summary of the conversation until now:\n\nThey spoke."},)"
            R"({"role":"assistant","content":"Now"},{"role":"user","content":"new"}])");
}

TEST(MessageBlocks, ASystemMessageMayBeForOneTurnOrOnlySetAnEffort) {
  const std::string list = R"([{"role":"user","content":"a"},
      {"role":"system","content":"once","clear_at":"next_user_message"},
      {"role":"system","output_config":{"effort":"low"}})";
  EXPECT_EQ(messages_of(list + "]"), R"([{"role":"user","content":"a"},{"role":"system","content":"once"}])");
  EXPECT_EQ(messages_of(list + R"(,{"role":"user","content":"b"}])"),
            R"([{"role":"user","content":"a"},{"role":"user","content":"b"}])");
  EXPECT_EQ(read_anthropic_messages(Json::parse(list + "]"), "messages")->effort, "low");
}

/// Names of the tools that a request with these system blocks offers.
std::string offered(const std::string& blocks) {
  const Result<GenerateParams> call =
      read_messages_call(Json::parse(R"({"max_tokens":8,"tools":[{"name":"f","input_schema":{}},
        {"name":"g","input_schema":{},"defer_loading":true}],"messages":[{"role":"user","content":"a"},
        {"role":"system","content":[{"type":"text","text":"New."})" +
                                     blocks + "]}]}"),
                         Purpose::kAnswer);
  if (!call.ok()) return call.error().field;
  std::string names;
  if (call->tools.empty()) return names;
  for (const Json& tool : Json::parse(call->tools))
    names += tool["function"]["name"].get<std::string>() + " ";
  return names;
}

TEST(MessagesRequest, SystemBlocksAddAndRemoveTools) {
  const std::string add = R"(,{"type":"tool_addition","tool":{"type":"tool_reference","name":"g"}})";
  const std::string remove = R"(,{"type":"tool_removal","tool":{"type":"tool_reference","name":"g"}})";
  EXPECT_EQ(offered(add), "f g ");
  EXPECT_EQ(offered(remove), "f ");
  EXPECT_EQ(offered(remove + add), "f g ");
  EXPECT_EQ(offered(R"(,{"type":"tool_addition","tool":{"type":"tool_definition","definition":
                        {"name":"h","input_schema":{}}}})"),
            "f g h ");
  EXPECT_EQ(offered(R"(,{"type":"tool_addition","tool":{"type":"mcp_toolset_reference","server_name":"s"}})"),
            "f g ");
  EXPECT_EQ(
      offered(R"(,{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"h"}}})"),
      "messages[1].content[1].tool.definition.input_schema");
}

TEST(MessagesRequest, ToolsThatTheClientRunsHaveTheirParameters) {
  const Result<GenerateParams> call = read(R"(,"tools":[{"type":"bash_20250124","name":"bash"},
      {"type":"text_editor_20250728","name":"str_replace_based_edit_tool"},
      {"type":"memory_20250818","name":"memory"},
      {"type":"computer_20251124","name":"computer","display_width_px":800,
       "display_height_px":600,"enable_zoom":true},
      {"type":"web_search_20250305","name":"web_search"},{"type":"code_execution_20260521","name":"c"},
      {"type":"bash_20250124","name":"strict","strict":true}],
      "tool_choice":{"type":"tool","name":"memory"})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const Json tools = Json::parse(call->tools);
  ASSERT_EQ(tools.size(), 5U);
  EXPECT_EQ(tools[4]["function"]["strict"], true);
  EXPECT_TRUE(call->strict_tools);
  EXPECT_TRUE(tools[0]["function"]["parameters"]["properties"].contains("restart"));
  EXPECT_TRUE(tools[1]["function"]["parameters"]["properties"].contains("insert_text"));
  EXPECT_EQ(tools[2]["function"]["parameters"]["properties"]["command"]["enum"].size(), 6U);
  EXPECT_NE(tools[3]["function"]["description"].get<std::string>().find("800 pixels wide"),
            std::string::npos);
  EXPECT_TRUE(tools[3]["function"]["parameters"]["properties"].contains("region"));
  EXPECT_EQ(call->notes.skipped.size(), 2U);
}

TEST(MessagesRequest, ToolsThatTheClientRunsRequireWhatTheirCommandsNeed) {
  const Result<GenerateParams> call = read(R"(,"tools":[{"type":"bash_20250124","name":"bash"},
      {"type":"text_editor_20250728","name":"edit"},{"type":"memory_20250818","name":"memory"},
      {"type":"computer_20250124","name":"computer","display_width_px":8,"display_height_px":6}])");
  ASSERT_TRUE(call.ok()) << call.error().message;
  const Json tools = Json::parse(call->tools);
  const auto branches = [&](std::size_t i) { return tools[i]["function"]["parameters"]["anyOf"]; };
  EXPECT_EQ(branches(0).dump(),
            R"([{"required":["command"]},{"properties":{"restart":{"const":true}},"required":["restart"]}])");
  EXPECT_EQ(branches(1)[0].dump(),
            R"({"properties":{"command":{"enum":["create"]}},"required":["file_text"]})");
  EXPECT_EQ(branches(1).back().dump(), R"({"properties":{"command":{"enum":["view"]}}})");
  EXPECT_EQ(branches(2).back().dump(),
            R"({"properties":{"command":{"enum":["rename"]}},"required":["old_path","new_path"]})");
  std::size_t values = 0;  // each once
  for (const Json& branch : branches(3)) values += branch["properties"]["action"]["enum"].size();
  EXPECT_EQ(values, tools[3]["function"]["parameters"]["properties"]["action"]["enum"].size());
}

TEST(MessagesRequest, AnEffortIsOneOfTheApi) {
  EXPECT_EQ(read(R"(,"output_config":{"effort":"high"},"thinking":{"type":"adaptive"})")->effort, "high");
  EXPECT_EQ(field_of(R"(,"output_config":{"effort":"huge"})"), "output_config.effort");
}

TEST(MessageBlocks, TheirNumberHasALimit) {
  Json blocks = Json::array();
  for (std::size_t i = 0; i < kMaxBlocks; ++i) blocks.push_back(Json{{"type", "text"}, {"text", "x"}});
  Notes notes;
  EXPECT_TRUE(read_system(blocks, "system", notes).ok());
  blocks.push_back(blocks.front());
  EXPECT_EQ(read_system(blocks, "system", notes).error().field, "system");
}

TEST(MessagesRequest, AnAnswerMayContinueTheAssistantsBeginning) {
  const auto ending = [](const char* last, const char* more) {
    return read_messages_call(Json::parse(R"({"max_tokens":8,"messages":[{"role":"user","content":"Hi"},)" +
                                          std::string(last) + "]" + more + "}"),
                              Purpose::kAnswer);
  };
  const char* text = R"({"role":"assistant","content":"Well"})";
  EXPECT_TRUE(ending(text, "")->continues);
  EXPECT_EQ(ending(text, R"(,"thinking":{"type":"adaptive"})").error().field, "messages");
  EXPECT_FALSE(
      ending(R"({"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]})", "")->continues);
}

}  // namespace
}  // namespace ft::api::messages_request_test
