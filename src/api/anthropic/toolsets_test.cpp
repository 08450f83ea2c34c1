#include "api/anthropic/toolsets.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/anthropic/message_blocks.h"
#include "api/anthropic/messages_request.h"
#include "api/anthropic/messages_writer.h"
#include "tests/api_events.h"

namespace ft::api::toolsets_test {
namespace {

Result<GenerateParams> read(const std::string& tools, const std::string& choice = "") {
  return read_messages_call(
      Json::parse(R"({"max_tokens":8,"messages":[{"role":"user","content":"Hi"}],"tools":)" + tools +
                  (choice.empty() ? "" : R"(,"tool_choice":)" + choice) + "}"),
      Purpose::kAnswer);
}

/// The parameters of each offered tool by its name.
Json offered(const Result<GenerateParams>& call) {
  EXPECT_TRUE(call.ok()) << (call.ok() ? "" : call.error().message);
  Json found;
  if (!call.ok() || call->tools.empty()) return found;
  for (const Json& tool : Json::parse(call->tools)) {
    found[tool["function"]["name"].get<std::string>()] = tool["function"]["parameters"];
  }
  return found;
}

TEST(Toolsets, OnlyDatedOnesOfTheClientAreKnown) {
  EXPECT_EQ(toolset_family("computer_toolset_20260801"), "computer");
  EXPECT_EQ(toolset_family("browser_toolset_20270101"), "browser");
  for (const char* other : {"mcp_toolset", "computer_20251124", "computer_toolset_", "shop_toolset_20260801",
                            "browser_toolset_2026080x"}) {
    EXPECT_FALSE(toolset_family(other)) << other;
  }
}

TEST(Toolsets, EnabledMembersAreOfferedWithTheirParameters) {
  const Json computer = offered(read(R"([{"type":"computer_toolset_20260801"}])"));
  EXPECT_EQ(computer.size(), 17U);
  EXPECT_EQ(computer["computer__scroll"]["required"], Json::parse(R"(["scroll_amount","scroll_direction"])"));
  EXPECT_EQ(computer["computer__left_click"]["required"], Json::array());
  EXPECT_EQ(computer["computer__left_click"]["properties"]["coordinate"]["maxItems"], 2);
  EXPECT_TRUE(computer["computer__left_click"]["properties"].contains("text"));
  const Json browser = offered(read(R"([{"type":"browser_toolset_20260801"}])"));
  EXPECT_EQ(browser.size(), 27U);
  EXPECT_EQ(browser["browser__hover"]["properties"]["target"]["anyOf"].size(), 2U);
  EXPECT_EQ(browser["browser__left_click_drag"]["required"], Json::parse(R"(["from","target"])"));
  EXPECT_EQ(browser["browser__wait"]["properties"]["duration"]["type"], "number");
  const Json chosen = offered(read(R"([{"type":"browser_toolset_20260801","configs":{
      "javascript_exec":{"enabled":true},"navigate":{"enabled":false},"find":{"defer_loading":true}}}])"));
  EXPECT_TRUE(chosen.contains("browser__javascript_exec"));
  EXPECT_FALSE(chosen.contains("browser__navigate"));
  EXPECT_TRUE(chosen.contains("browser__find"));
  EXPECT_EQ(read(R"([{"type":"browser_toolset_20260801","configs":{"find":{"enabled":3}}}])").error().field,
            "tools[0].configs.find.enabled");
}

TEST(Toolsets, AToolsetOfAnMcpServerIsLeftOutAndCounted) {
  const Result<GenerateParams> call = read(R"([{"type":"mcp_toolset","mcp_server_name":"s"}])");
  EXPECT_TRUE(offered(call).is_null());
  EXPECT_EQ(call->notes.skipped.at("mcp_toolset"), 1);
}

TEST(Toolsets, AChoiceMayNameAMemberOrAFamily) {
  const std::string both = R"([{"type":"computer_toolset_20260801"},{"type":"browser_toolset_20260801"}])";
  EXPECT_EQ(read(both, R"({"type":"tool","name":"navigate"})")->named_tool, "browser__navigate");
  EXPECT_EQ(read(both, R"({"type":"tool","name":"computer__zoom"})")->named_tool, "computer__zoom");
  EXPECT_EQ(read(both, R"({"type":"tool","name":"bash"})").error().field, "tool_choice.name");
  const Result<GenerateParams> family = read(both, R"({"type":"tool","name":"computer"})");
  EXPECT_EQ(family->tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(family->allowed_tools.size(), 17U);
  EXPECT_EQ(read(both, R"({"type":"tool","name":"screenshot"})")->allowed_tools.size(), 2U);  // of either
}

TEST(Toolsets, TheHistoryHasTheOfferedNamesAndTheStateOfTheBrowser) {
  const auto read = read_anthropic_messages(Json::parse(R"([
    {"role":"assistant","content":[
      {"type":"tool_use","id":"a","name":"new_tab","toolset_name":"browser","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","toolset_name":"browser","content":[
      {"type":"browser_state","tabs":[{"tab_id":"1","title":"","url":"","active":true}],
       "state_changes":[{"type":"tab_opened","tab_id":"1"}]}]}]}])"),
                                            "messages");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->messages[0]["tool_calls"][0]["function"]["name"], "browser__new_tab");
  EXPECT_EQ(read->messages[1]["content"],
            "Open tabs:\n{\"tab_id\":\"1\",\"title\":\"\",\"url\":\"\"} (active)\n"
            "{\"type\":\"tab_opened\",\"tab_id\":\"1\"}");
}

TEST(Toolsets, ACallHasItsMembersNameAndTheFamilyStreamedAndWhole) {
  const ModelInfo model_info = test::model_info();
  const Result<GenerateParams> call = read(R"([{"type":"computer_toolset_20260801"}])");
  ASSERT_TRUE(call.ok());
  MessagesWriter writer(model_info, *call, ResponseMeta{"0a", 1, 2, ""}, 3);
  std::string out;
  writer.begin(out);
  for (const Event& event : {test::tool_begin("computer__wait"), test::tool_arguments(R"({"duration":1})"),
                             test::tool_end(), test::end_event(Finish::kStop)}) {
    writer.add(0, event, out);
  }
  const std::vector<test::Frame> frames = test::frames(out);
  const Json begun = frames[2].data()["content_block"];
  EXPECT_EQ(begun["name"], "wait");
  EXPECT_EQ(begun["toolset_name"], "computer");
  const Json block = Json::parse(writer.reply().body)["content"][0];
  EXPECT_EQ(block["name"], "wait");
  EXPECT_EQ(block["toolset_name"], "computer");
  EXPECT_EQ(block["input"]["duration"], 1);
}

}  // namespace
}  // namespace ft::api::toolsets_test
