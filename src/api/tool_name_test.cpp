#include "api/tool_name.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/anthropic/messages_request.h"
#include "api/openai/chat_request.h"
#include "api/openai/responses_request.h"

namespace ft::api::tool_name_test {
namespace {

TEST(ToolName, MayHaveEveryCharacterThatIsSeen) {
  for (const char* name : {"get_weather", "mcp.server/tool", "Wetter höher", "天気", "a:b"})
    EXPECT_TRUE(check_tool_name("tools[0].name", name).ok()) << name;
}

TEST(ToolName, ControlCharactersAreRefusedByTheFieldAndShownEscaped) {
  for (const char* name : {"a\x1b[31m", "a\nb", "\t", "a\x7f", "a\xc2\x9b", "a\xe2\x80\xae"}) {
    const Status status = check_tool_name("tools[0].name", name);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().field, "tools[0].name");
    EXPECT_NE(status.error().message.find("\\u"), std::string::npos);
    EXPECT_EQ(status.error().message.find(name), std::string::npos);
  }
}

/// The field that a dialect refuses; empty: none.
template <typename Read>
std::string refused(Read read, std::string body) {
  const auto result = read(Json::parse(body));
  return result.ok() ? std::string() : result.error().field;
}

TEST(ToolName, EachDialectRefusesItInEachFormOfATool) {
  const std::string chat = R"({"messages":[{"role":"user","content":"a"}],"max_tokens":9,)";
  const auto chats = [&](const std::string& rest) {
    return refused([](const Json& json) { return read_chat(json); }, chat + rest + "}");
  };
  EXPECT_EQ(chats(R"("tools":[{"type":"function","function":{"name":"a\u001b"}}])"),
            "tools[0].function.name");
  EXPECT_EQ(chats(R"("tools":[{"type":"custom","custom":{"name":"a\u001b"}}])"), "tools[0].custom.name");
  EXPECT_EQ(chats(R"("functions":[{"name":"a\u001b"}])"), "functions[0].name");
  EXPECT_EQ(chats(R"("tools":[{"type":"function","function":{"name":"a"}}])"), "");
  const auto responses = [](const std::string& tool) {
    return refused([](const Json& json) { return read_responses(json, nullptr, {}); },
                   R"({"input":"a","tools":[)" + tool + "]}");
  };
  EXPECT_EQ(responses(R"({"type":"function","name":"a\u0007"})"), "tools[0].name");
  EXPECT_EQ(responses(R"({"type":"custom","name":"a\u0007"})"), "tools[0].name");
  const auto messages = [&](const std::string& tool) {
    return refused([](const Json& json) { return read_messages_call(json, Purpose::kAnswer); },
                   chat + R"("tools":[)" + tool + "]}");
  };
  EXPECT_EQ(messages(R"({"name":"a\u009b","input_schema":{}})"), "tools[0].name");
  EXPECT_EQ(messages(R"({"type":"bash_20250124","name":"a\n"})"), "tools[0].name");
}

}  // namespace
}  // namespace ft::api::tool_name_test
