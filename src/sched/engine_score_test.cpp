// Log-probabilities of prompts, as evaluation harnesses ask for them.
#include "tests/small_engine.h"

namespace ft::test::engine_score_test {
namespace {

struct Scored {
  std::vector<Event> prompt, answer;  // kPromptToken, kToken
  Event end;
};

Scored scored(Ticket ticket) {
  Scored all;
  for (;;) {
    Event event = ticket.next();
    if (event.kind == Event::Kind::kPromptToken) all.prompt.push_back(event);
    if (event.kind == Event::Kind::kToken) all.answer.push_back(event);
    if (event.kind == Event::Kind::kEnd) return all.end = event, all;
  }
}

RequestFields scoring(RequestFields fields, int max_tokens) {
  fields.score_prompt = true;
  fields.slot.logprobs = 2;
  fields.slot.max_tokens = max_tokens;
  return fields;
}

TEST_F(EngineTest, TokensOfAPromptScoreAsTheyDidWhenTheyWereGenerated) {
  RequestFields request = fields("Write a Python function that adds two numbers.", DrafterKind::kMtp, 150);
  request.slot.logprobs = 2, request.slot.depth = 3;
  request.slot.eos.clear();
  const Scored generated = scored(submit(request));
  ASSERT_EQ(generated.answer.size(), 150U);
  EXPECT_TRUE(generated.prompt.empty());
  const std::size_t given = request.prompt.size();
  for (const Event& token : generated.answer) request.prompt.push_back(token.token);
  for (int run = 0; run < 2; ++run) {  // the second finds its prompt in the cache
    const Scored whole = scored(submit(scoring(request, 0)));
    ASSERT_EQ(whole.prompt.size(), request.prompt.size());
    EXPECT_FALSE(whole.prompt[0].logprobs.has_value());
    EXPECT_TRUE(whole.answer.empty());
    EXPECT_EQ(whole.end.finish, Finish::kLength);
    EXPECT_EQ(whole.end.report.completion_tokens, 0);
    for (std::size_t i = 0; i < generated.answer.size(); ++i) {
      const Event& token = whole.prompt[given + i];
      EXPECT_EQ(token.token, generated.answer[i].token) << i;
      ASSERT_TRUE(token.logprobs.has_value()) << i;
      EXPECT_EQ(token.logprobs->sampled, generated.answer[i].logprobs->sampled) << i;
      EXPECT_EQ(token.logprobs->top[1].token, generated.answer[i].logprobs->top[1].token) << i;
    }
  }
}

void expect_same(const std::vector<Event>& found, const std::vector<Event>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].token, wanted[i].token) << i;
    ASSERT_EQ(found[i].logprobs.has_value(), wanted[i].logprobs.has_value()) << i;
    if (!found[i].logprobs) continue;
    EXPECT_EQ(found[i].logprobs->sampled, wanted[i].logprobs->sampled) << i;
    ASSERT_EQ(found[i].logprobs->top.size(), wanted[i].logprobs->top.size()) << i;
    for (std::size_t k = 0; k < found[i].logprobs->top.size(); ++k) {
      EXPECT_EQ(found[i].logprobs->top[k].token, wanted[i].logprobs->top[k].token) << i;
      EXPECT_EQ(found[i].logprobs->top[k].logprob, wanted[i].logprobs->top[k].logprob) << i;
    }
  }
}

TEST_F(EngineTest, AScoredPromptGoesOnToTheAnswerOfAnUnscoredOne) {
  for (const float temperature : {0.0F, 0.8F}) {
    RequestFields request = fields("Count to five.", DrafterKind::kMtp, 20);
    request.slot.sampler.temperature = temperature, request.slot.sampler.seed = 4;
    request.slot.logprobs = 2;
    const Scored plain = scored(submit(request));
    const Scored both = scored(submit(scoring(request, 20)));
    EXPECT_EQ(both.prompt.size(), request.prompt.size());
    expect_same(both.answer, plain.answer);
  }
}

TEST_F(EngineTest, ScoredPromptsBesideOthersAreThoseOfALoneRunAndChangeNobody) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "The river runs to the sea number " + std::to_string(i) + ". ";
  const RequestFields score = scoring(fields(text, DrafterKind::kMtp), 0);
  RequestFields other = fields("Write a Python function that adds two numbers.", DrafterKind::kMtp, 120);
  other.slot.sampler.temperature = 0.7F, other.slot.sampler.seed = 9, other.slot.logprobs = 1;
  const Scored lone_score = scored(submit(score)), lone_other = scored(submit(other));
  ASSERT_GT(score.prompt.size(), 3U * (kMaxDraftTokens + 1) * 2);  // several chunks
  Ticket running = submit(other), first = submit(score), second = submit(score);
  expect_same(scored(std::move(first)).prompt, lone_score.prompt);
  expect_same(scored(std::move(second)).prompt, lone_score.prompt);
  expect_same(scored(std::move(running)).answer, lone_other.answer);
}

TEST_F(EngineTest, ALongScoredPromptWaitsForItsReader) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word ";
  const RequestFields score = scoring(fields(text), 0);
  ASSERT_GT(score.prompt.size(), kUnread / 2);
  RequestFields longer = score;
  while (longer.prompt.size() < 3 * kUnread) longer.prompt.push_back(longer.prompt[longer.prompt.size() / 2]);
  Ticket waiting = submit(longer);
  const Scored beside = scored(submit(score));  // continues while the other is not read
  EXPECT_EQ(beside.prompt.size(), score.prompt.size());
  EXPECT_EQ(scored(std::move(waiting)).prompt.size(), longer.prompt.size());
}

TEST_F(EngineTest, ALoneTokenIsScoredToo) {
  RequestFields request = fields("a");
  request.prompt.resize(1);
  const Scored lone = scored(submit(scoring(request, 0)));
  EXPECT_EQ(lone.prompt.size(), 1U);
  EXPECT_EQ(lone.end.finish, Finish::kLength);
}

TEST(Request, NoTokensAreAskedForOnlyWhereThePromptIsScored) {
  RequestFields request;
  request.prompt = {1};  // and max_tokens 0
  EXPECT_FALSE(Request::make(request, 10).ok());
  request.score_prompt = true;
  EXPECT_FALSE(Request::make(request, 10).ok());  // without log-probabilities
  request.slot.logprobs = 0;
  EXPECT_TRUE(Request::make(request, 10).ok());
}

}  // namespace
}  // namespace ft::test::engine_score_test
