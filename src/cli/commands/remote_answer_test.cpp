#include "cli/commands/remote_answer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft::cli::remote_answer_test {
namespace {

TEST(RemoteAnswer, GathersAStreamAndItsReport) {
  std::string shown;
  RemoteAnswer answer([&](const Event& event) { shown += event.text + "|"; });
  answer.take(R"(data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})");
  answer.take("");
  answer.take(R"(data: {"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]})");
  answer.take(R"(data: {"choices":[{"delta":{"content":"Hel"}}]})");
  answer.take(R"(data: {"choices":[{"delta":{"content":"lo"}}]})");
  answer.take(R"(data: {"choices":[{"delta":{},"finish_reason":"length"}]})");
  answer.take(R"(data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3},)"
              R"("speculation":{"engaged":true,"drafter":"mtp","rounds":2,"drafted":3,"accepted":1}})");
  answer.take("data: [DONE]");
  const Result<GatheredAnswer> whole = answer.finish();
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->text, "Hello");
  EXPECT_EQ(whole->reasoning, "hm");
  EXPECT_EQ(whole->finish, Finish::kLength);
  EXPECT_EQ(whole->report.prompt_tokens, 7);
  EXPECT_EQ(whole->report.speculation.accepted, 1);
  EXPECT_EQ(shown, "hm|Hel|lo|");
}

TEST(RemoteAnswer, SaysWhatTheServerSaysAndWhenItBreaksOff) {
  RemoteAnswer failed(nullptr);
  failed.take(R"(data: {"error":{"message":"out of paper"}})");
  EXPECT_NE(failed.finish().error().message.find("out of paper"), std::string::npos);
  RemoteAnswer broken(nullptr);
  broken.take(R"(data: {"choices":[{"delta":{"content":"Hel"}}]})");
  EXPECT_FALSE(broken.finish().ok());
}

TEST(RemoteAnswer, SurvivesFramesThatAreNone) {
  RemoteAnswer answer(nullptr);
  for (const char* line :
       {"data: ", "data: {", "data: 5", R"(data: {"choices":5})", R"(data: {"choices":[5]})",
        R"(data: {"choices":[{"delta":5}]})", R"(data: {"usage":{"prompt_tokens":"x"}})",
        R"(data: {"choices":[{"delta":{"tool_calls":[5]}}]})", "nonsense"}) {
    answer.take(line);
  }
  EXPECT_FALSE(answer.finish().ok());
}

TEST(RemoteAnswer, TheRequestHoldsWhatWasChosenAndNothingElse) {
  ChatSession session;
  session.messages.push_back({"user", "Hi", ""});
  session.request.sampling.temperature = 0.5F;
  session.think = false;
  const auto body = nlohmann::json::parse(remote_request(session));
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_FALSE(body.contains("top_p"));
  EXPECT_EQ(body["chat_template_kwargs"]["enable_thinking"], false);
  EXPECT_EQ(body["messages"][0]["content"], "Hi");
}

}  // namespace
}  // namespace ft::cli::remote_answer_test
