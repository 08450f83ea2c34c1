#include "api/openai/completions.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/openai/completions_request.h"
#include "api/openai/completions_writer.h"
#include "tests/api_events.h"

namespace ft::api::completions_test {
namespace {

Result<CompletionsRequest> read(const std::string& body) {
  FT_ASSIGN(const Json json, parse_body(body));
  return read_completions(json, 100);
}

std::string field_of(const std::string& body) {
  const Result<CompletionsRequest> request = read(body);
  return request.ok() ? "(none)" : request.error().field;
}

TEST(CompletionsRequest, APromptIsTextIdsOrAListOfEither) {
  EXPECT_EQ(read(R"({"prompt": "a"})")->call.prompts[0].text, "a");
  EXPECT_EQ(read(R"({"prompt": [1, 2]})")->call.prompts[0].ids, (std::vector<std::int32_t>{1, 2}));
  const Result<CompletionsRequest> texts = read(R"({"prompt": ["a", "b"], "n": 3})");
  ASSERT_TRUE(texts.ok());
  EXPECT_EQ(texts->call.prompts.size(), 2U);
  EXPECT_EQ(texts->call.choices, 3);
  const Result<CompletionsRequest> lists = read(R"({"prompt": [[1], [2, 3]]})");
  ASSERT_TRUE(lists.ok());
  EXPECT_EQ(lists->call.prompts[1].ids, (std::vector<std::int32_t>{2, 3}));
}

TEST(CompletionsRequest, DefaultsAreThoseOfTheReference) {
  const Result<CompletionsRequest> request = read(R"({"prompt": "a"})");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->call.max_tokens, 16);
  EXPECT_EQ(request->call.logprobs, -1);
  EXPECT_FALSE(request->echo);
  EXPECT_FALSE(request->call.score_prompt);
}

TEST(CompletionsRequest, EchoWithLogprobsScoresThePromptAndZeroTokensNothingElse) {
  const Result<CompletionsRequest> harness = read(R"({"prompt": "a", "echo": true, "logprobs": 1,
                                                      "max_tokens": 1})");
  ASSERT_TRUE(harness.ok());
  EXPECT_TRUE(harness->call.score_prompt);
  EXPECT_FALSE(harness->call.only_prompt);
  const Result<CompletionsRequest> only = read(R"({"prompt": "a", "echo": true, "logprobs": 1,
                                                   "max_tokens": 0})");
  ASSERT_TRUE(only.ok());
  EXPECT_TRUE(only->call.only_prompt);
  EXPECT_EQ(field_of(R"({"prompt": "a", "max_tokens": 0})"), "max_tokens");
}

TEST(CompletionsRequest, WhatIsWrongIsNamed) {
  EXPECT_EQ(field_of(R"({})"), "prompt");
  EXPECT_EQ(field_of(R"({"prompt": ""})"), "prompt");
  EXPECT_EQ(field_of(R"({"prompt": []})"), "prompt");
  EXPECT_EQ(field_of(R"({"prompt": {"a": 1}})"), "prompt");
  EXPECT_EQ(field_of(R"({"prompt": [1, "a"]})"), "prompt[1]");
  EXPECT_EQ(field_of(R"({"prompt": [99]})"), "(none)");
  EXPECT_EQ(field_of(R"({"prompt": [100]})"), "prompt[0]");
  EXPECT_EQ(field_of(R"({"prompt": [-1]})"), "prompt[0]");
  EXPECT_EQ(field_of(R"({"prompt": [18446744073709551615]})"), "prompt[0]");
  EXPECT_EQ(field_of(R"({"prompt": ["a", [1]]})"), "(none)");
  EXPECT_EQ(field_of(R"({"prompt": ["a", [null]]})"), "prompt[1][0]");
  EXPECT_EQ(field_of(R"({"prompt": "a", "logprobs": 6})"), "logprobs");
  EXPECT_EQ(field_of(R"({"prompt": "a", "logprobs": 5})"), "(none)");
  EXPECT_EQ(field_of(R"({"prompt": "a", "best_of": 2})"), "best_of");
  EXPECT_EQ(field_of(R"({"prompt": "a", "best_of": 2, "n": 2})"), "(none)");
}

TEST(CompletionsRequest, OnePromptOrAnswerBeyondTheLimitIsRefused) {
  Json prompts = Json::array();
  for (std::size_t i = 0; i < kMaxPrompts; ++i) prompts.push_back("a");
  EXPECT_EQ(field_of(Json{{"prompt", prompts}, {"n", 2}}.dump()), "(none)");
  EXPECT_EQ(field_of(Json{{"prompt", prompts}, {"n", 3}}.dump()), "n");
  prompts.push_back("a");
  EXPECT_EQ(field_of(Json{{"prompt", prompts}}.dump()), "prompt");
}

GenerateParams call_of(const std::string& body) { return read(body)->call; }

TEST(CompletionsWriter, ChoicesAreCountedOverPromptsAndEchoesComeFirst) {
  const ModelInfo model_info = test::model_info();
  CompletionsWriter writer(model_info, call_of(R"({"prompt": ["a", "b"], "n": 2, "echo": true})"),
                           ResponseMeta{}, {"a", "b"});
  std::string unused;
  for (std::size_t i = 0; i < 4; ++i) {
    writer.add(i, test::text("+" + std::to_string(i)), unused);
    writer.add(i, test::end_event(i == 3 ? Finish::kLength : Finish::kStop), unused);
  }
  const Json json = Json::parse(writer.reply().body);
  ASSERT_EQ(json["choices"].size(), 4U);
  EXPECT_EQ(json["choices"][1]["text"], "a+1");
  EXPECT_EQ(json["choices"][2]["text"], "b+2");
  EXPECT_EQ(json["choices"][3]["index"], 3);
  EXPECT_EQ(json["choices"][3]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(json["usage"]["prompt_tokens"], 14);      // 7 per prompt, counted once
  EXPECT_EQ(json["usage"]["completion_tokens"], 20);  // 5 per answer
}

TEST(CompletionsWriter, StreamedTextsJoinToTheWholeAndEndWithDone) {
  const ModelInfo model_info = test::model_info();
  CompletionsWriter writer(
      model_info, call_of(R"({"prompt": "a", "echo": true, "stream_options": {"include_usage": true}})"),
      ResponseMeta{}, {"a"});
  std::string out;
  writer.begin(out);
  writer.add(0, test::text("b"), out);
  writer.add(0, test::text("c"), out);
  writer.keep_alive(out);
  writer.add(0, test::end_event(Finish::kStop), out);
  writer.end(out);
  const std::vector<test::Frame> frames = test::frames(out);
  ASSERT_EQ(frames.size(), 6U);
  std::string joined;
  for (std::size_t i = 0; i < 4; ++i) joined += frames[i].data()["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(joined, "abc");
  EXPECT_EQ(frames[3].data()["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(frames[4].data()["choices"].empty());
  EXPECT_EQ(frames[4].data()["usage"]["total_tokens"], 12);
  EXPECT_TRUE(frames[5].data().is_null());
}

TEST(CompletionsWriter, AFailureIsTheLastFrame) {
  const ModelInfo model_info = test::model_info();
  CompletionsWriter writer(model_info, call_of(R"({"prompt": "a"})"), ResponseMeta{}, {});
  std::string out;
  writer.begin(out);
  Event failure = test::end_event(Finish::kError);
  failure.error = {Code::kExhausted, "no memory"};
  writer.add(0, failure, out);
  writer.end(out);
  const std::vector<test::Frame> frames = test::frames(out);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].data()["error"]["message"], "no memory");
}

}  // namespace
}  // namespace ft::api::completions_test
