#include <chrono>
#include <thread>

#include "tests/small_engine.h"

namespace ft::test::engine_test {
namespace {

TEST_F(EngineTest, DraftsChangeTheSpeedAndNotTheAnswer) {
  const std::string prompt = "Write a Python function that returns the larger of two numbers.";
  const Collected plain = answer(fields(prompt, DrafterKind::kNone));
  RequestFields drafted = fields(prompt, DrafterKind::kMtp);
  drafted.slot.depth = 3;
  const Collected speculative = answer(drafted);
  EXPECT_EQ(plain.tokens, speculative.tokens);
  EXPECT_EQ(plain.text, speculative.text);
  EXPECT_FALSE(plain.report.engaged);
  EXPECT_FALSE(plain.report.reason.empty());
  EXPECT_TRUE(speculative.report.engaged);
  EXPECT_GT(speculative.report.speculation.accepted, 0);
  EXPECT_LT(speculative.report.speculation.rounds, static_cast<std::int64_t>(speculative.tokens.size()));
}

TEST_F(EngineTest, RequestsAtOnceAnswerAsEachAlone) {
  std::vector<RequestFields> requests;
  for (const char* prompt : {"What is the capital of France?", "Write a haiku.", "Count to five in JSON."}) {
    requests.push_back(fields(prompt));
    requests.back().slot.sampler.temperature = 0.8F;
    requests.back().slot.sampler.seed = requests.size();
  }
  std::vector<Collected> alone, together;
  for (const RequestFields& request : requests) alone.push_back(answer(request));
  std::vector<Ticket> tickets;
  for (const RequestFields& request : requests) tickets.push_back(submit(request));
  for (Ticket& ticket : tickets) together.push_back(collect(ticket));
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(alone[i].tokens, together[i].tokens) << i;
}

TEST_F(EngineTest, AStopStringEndsTheAnswerBeforeItAndNothingBehindItCounts) {
  const Collected whole =
      answer(fields("Write a Python function that adds two numbers.", DrafterKind::kNone));
  ASSERT_GT(whole.text.size(), 20U);
  const std::string stop = whole.text.substr(12, 5);
  RequestFields request = fields("Write a Python function that adds two numbers.", DrafterKind::kMtp);
  request.slot.depth = 8;
  request.stops = {stop};
  const Collected stopped = answer(request);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_TRUE(stopped.by_stop_string);
  EXPECT_EQ(stopped.finish, Finish::kStop);
  EXPECT_EQ(stopped.report.completion_tokens, static_cast<int>(stopped.tokens.size()));
  EXPECT_LT(stopped.tokens.size(), whole.tokens.size());
}

TEST_F(EngineTest, ACancelledRequestEndsAndItsSlotServesTheNext) {
  for (int i = 0; i < 5; ++i) {
    RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 400);
    request.slot.eos.clear();
    Ticket ticket = submit(request);
    const Collected cut = collect(ticket, 3);
    EXPECT_EQ(cut.finish, Finish::kCancelled);
    EXPECT_LT(cut.tokens.size(), 400U);
  }
  EXPECT_EQ(answer(fields("Hello", DrafterKind::kAuto, 4)).tokens.size(), 4U);
}

TEST_F(EngineTest, APromptBeyondTheContextIsRefusedWithASentence) {
  RequestFields request = fields("Hello");
  request.prompt.assign(600, 5);
  const Result<Ticket> refused =
      engine_->submit(std::move(*Request::make(std::move(request), engine_->vocabulary())));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kTooLong);
  EXPECT_NE(refused.error().message.find("600 tokens > 511 maximum"), std::string::npos)
      << refused.error().message;
}

TEST_F(EngineTest, AFullQueueRefusesInsteadOfGrowing) {
  // As fast as possible: the engine thread may not have filled one slot when the last request arrives.
  const std::size_t most = static_cast<std::size_t>(options().decoder.slots) + options().queue;
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i <= most; ++i) {
    RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 300);
    request.slot.eos.clear();
    Result<Ticket> ticket =
        engine_->submit(std::move(*Request::make(std::move(request), engine_->vocabulary())));
    ASSERT_EQ(ticket.ok(), i < most) << i;
    if (ticket.ok()) {
      tickets.push_back(std::move(*ticket));
    } else {
      EXPECT_EQ(ticket.error().code, Code::kBusy);
    }
  }
  EXPECT_EQ(engine_->status().refused, 1);
  for (Ticket& ticket : tickets) ticket.cancel();
  for (Ticket& ticket : tickets) collect(ticket);
}

TEST_F(EngineTest, StoppingTheEngineEndsEveryTicket) {
  std::vector<Ticket> tickets;
  for (int i = 0; i < 4; ++i) {
    RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 300);
    request.slot.eos.clear();
    tickets.push_back(submit(request));
    tickets.back().cancel();
  }
  engine_.reset();
  for (Ticket& ticket : tickets) EXPECT_EQ(collect(ticket).finish, Finish::kCancelled);
}

TEST_F(EngineTest, ASlowReaderPausesItsOwnRequestOnlyAndMissesNothing) {
  RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 200);
  request.slot.eos.clear();
  const Collected alone = answer(request);
  Ticket slow = submit(request);
  Ticket other = submit(fields("Hello", DrafterKind::kAuto, 40));
  EXPECT_FALSE(collect(other).tokens.empty());
  const Collected late = collect(slow);
  EXPECT_EQ(late.finish, Finish::kLength);
  EXPECT_EQ(late.tokens, alone.tokens);
}

TEST_F(EngineTest, AReaderWhoNeverReadsLosesItsRequestAndItsSlotServesTheNext) {
  EngineOptions impatient = options();
  impatient.unread_ms = 500;
  start(impatient);
  std::vector<Ticket> stuck;
  for (int i = 0; i < 3; ++i) {  // every slot
    RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 400);
    request.slot.eos.clear();
    stuck.push_back(submit(request));
  }
  EXPECT_EQ(answer(fields("Hello", DrafterKind::kAuto, 4)).tokens.size(), 4U) << "a slot became free";
  while (engine_->status().running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (Ticket& ticket : stuck) {
    const Collected lost = collect(ticket);
    EXPECT_EQ(lost.finish, Finish::kCancelled);
    EXPECT_NE(lost.error.message.find("unread"), std::string::npos) << lost.error.message;
    EXPECT_LE(lost.tokens.size(), kUnread + kMaxDraftTokens);
    EXPECT_GT(lost.tokens.size(), kUnread / 4) << "the tokens decoded before are there";
  }
}

TEST_F(EngineTest, StoppingTheEngineWaitsForNoReader) {
  std::vector<Ticket> stuck;
  for (int i = 0; i < 4; ++i) {  // one of them waits for a slot
    RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 400);
    request.slot.eos.clear();
    stuck.push_back(submit(request));
  }
  while (stuck.front().next().kind != Event::Kind::kToken) continue;
  engine_.reset();
  for (Ticket& ticket : stuck) EXPECT_EQ(collect(ticket).finish, Finish::kCancelled);
}

TEST_F(EngineTest, LogprobsAreThoseOfTheTargetForAcceptedDraftsToo) {
  RequestFields request = fields("What is the capital of France?", DrafterKind::kNone, 16);
  request.slot.logprobs = 5;
  const auto logprobs_of = [&](const RequestFields& asked) {
    Ticket ticket = submit(asked);
    std::vector<Logprobs> all;
    for (;;) {
      Event event = ticket.next();
      if (event.kind == Event::Kind::kEnd) return all;
      if (event.kind == Event::Kind::kToken) all.push_back(event.logprobs.value());
    }
  };
  const std::vector<Logprobs> plain = logprobs_of(request);
  request.drafter = DrafterKind::kMtp;
  request.slot.depth = 4;
  const std::vector<Logprobs> drafted = logprobs_of(request);
  ASSERT_EQ(plain.size(), drafted.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].sampled, drafted[i].sampled);
    ASSERT_EQ(plain[i].top.size(), 5U);
    EXPECT_EQ(plain[i].top.front().logprob, drafted[i].top.front().logprob);
  }
}

}  // namespace
}  // namespace ft::test::engine_test
