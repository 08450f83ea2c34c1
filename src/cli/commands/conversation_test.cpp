#include "cli/commands/conversation.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/text_file.h"
#include "cli/commands/chat_session.h"

namespace ft::cli::conversation_test {
namespace {

using Json = nlohmann::json;

TEST(Conversation, KeepsWhatTheTemplateMayWant) {
  const auto checked =
      checked_messages(R"({"messages": [{"role": "user", "content": [{"type": "text"}], "x": 1}]})", "m");
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_EQ(Json::parse(*checked), Json::parse(R"([{"role":"user","content":[{"type":"text"}],"x":1}])"));
}

TEST(Conversation, RefusesWhatIsNoConversation) {
  for (const char* text :
       {"", "{", "[]", "3", "[1]", "[{}]", R"([{"role": 3}])", "{\"messages\": 1}", "[1e999]"}) {
    const auto checked = checked_messages(text, "talk.json");
    ASSERT_FALSE(checked.ok()) << text;
    EXPECT_EQ(checked.error().code, Code::kInvalid);
    EXPECT_EQ(checked.error().message.rfind("talk.json: ", 0), 0U) << checked.error().message;
  }
}

TEST(Conversation, DeepNestingIsRefusedBeforeItIsParsed) {
  const std::string deep = std::string(200000, '[');
  EXPECT_FALSE(checked_messages(deep, "m").ok());
  EXPECT_FALSE(checked_tools(deep, "t").ok());
}

TEST(Conversation, ABareFunctionBecomesATool) {
  const auto checked = checked_tools(R"([{"name": "f", "parameters": {}}])", "t");
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(Json::parse(*checked),
            Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{}}}])"));
  for (const char* text :
       {"{}", "[{}]", "[{\"function\": {}}]", "[{\"function\": {\"name\": 1}}]", "[null]"}) {
    EXPECT_FALSE(checked_tools(text, "t").ok()) << text;
  }
}

TEST(ChatSession, CommandsChangeWhatTheySay) {
  ChatSession session;
  EXPECT_FALSE(run_chat_command(session, "/system Be brief").failed);
  EXPECT_EQ(session.system, "Be brief");
  EXPECT_FALSE(run_chat_command(session, "/set temperature 0.25").failed);
  EXPECT_EQ(session.request.sampling.temperature, 0.25F);
  EXPECT_FALSE(run_chat_command(session, "/think on").failed);
  EXPECT_EQ(session.think, true);
  session.messages.push_back({"user", "hello", ""});
  EXPECT_FALSE(run_chat_command(session, "/clear").failed);
  EXPECT_TRUE(session.messages.empty());
  EXPECT_TRUE(run_chat_command(session, "/quit").quit);
}

TEST(ChatSession, AWrongCommandChangesNothing) {
  ChatSession session;
  for (const char* line : {"/set temperature hot", "/set colour 1", "/set seed", "/think maybe", "/nonsense",
                           "/load", "/load /nowhere/x.json", "/", "/save"}) {
    EXPECT_TRUE(run_chat_command(session, line).failed) << line;
  }
  EXPECT_FALSE(any_asked(session.request.sampling));
  EXPECT_FALSE(session.think.has_value());
}

TEST(ChatSession, WhatIsSavedIsLoaded) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("foretoken_chat_" + std::to_string(::getpid()) + ".json"))
          .string();
  ChatSession session;
  session.system = "sys";
  session.messages = {{"user", "a \"b\"\n\u00e9", ""}, {"assistant", "c", "thought"}};
  ASSERT_FALSE(run_chat_command(session, "/save " + file).failed);
  ChatSession other;
  other.messages.push_back({"user", "old", ""});
  const CommandOutcome outcome = run_chat_command(other, "/load " + file);
  ASSERT_FALSE(outcome.failed) << outcome.words;
  EXPECT_EQ(other.system, "sys");
  ASSERT_EQ(other.messages.size(), 2U);
  EXPECT_EQ(other.messages[0].content, session.messages[0].content);
  EXPECT_EQ(other.messages[1].reasoning, "thought");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace ft::cli::conversation_test
