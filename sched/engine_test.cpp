#include "sched/engine.h"

#include <gtest/gtest.h>

#include "backends/registry.h"

namespace ft {
namespace {

constexpr const char* kModel = "assets/qwen3.5-tiny";

constexpr std::size_t kUnread = 100;

struct Collected {
  std::string text, reasoning, error;
  std::vector<std::int32_t> tokens;
  Finish finish = Finish::kNone;
  bool by_stop_string = false;
  Report report;
};

class EngineTest : public testing::Test {
 protected:
  void SetUp() override {
    model_ = std::make_unique<Model>(std::move(*load_model(kModel)));
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*Tokenizer::load(kModel)));
    backend_ = std::move(*make_backend({}));
    EngineOptions options;
    options.decoder.slots = 3;
    options.decoder.context = 512;
    options.queue = 4;
    options.unread_events = kUnread;
    options.unread_ms = 500;
    engine_ = std::move(*Engine::start(*backend_, *model_, *tokenizer_, options));
  }

  RequestFields fields(const std::string& user, DrafterKind kind = DrafterKind::kAuto, int max_tokens = 48) {
    RequestFields fields;
    fields.prompt_text =
        "<|im_start|>user\n" + user + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    fields.prompt = *tokenizer_->encode(fields.prompt_text, false);
    fields.slot.max_tokens = max_tokens;
    fields.slot.eos = {8180, 8178};
    fields.drafter = kind;
    return fields;
  }

  Ticket submit(RequestFields request) {
    return std::move(*engine_->submit(std::move(*Request::make(std::move(request), engine_->vocabulary()))));
  }

  static Collected collect(Ticket& ticket, int cancel_after = -1) {
    Collected all;
    for (;;) {
      Event event = ticket.next();
      if (event.kind == Event::Kind::kToken) all.tokens.push_back(event.token);
      if (event.kind == Event::Kind::kText) all.text += event.text;
      if (event.kind == Event::Kind::kReasoning) all.reasoning += event.text;
      if (cancel_after >= 0 && static_cast<int>(all.tokens.size()) >= cancel_after) ticket.cancel();
      if (event.kind != Event::Kind::kEnd) continue;
      all.finish = event.finish;
      all.by_stop_string = event.by_stop_string;
      all.error = event.error;
      all.report = event.report;
      return all;
    }
  }

  Collected answer(RequestFields request) {
    Ticket ticket = submit(std::move(request));
    return collect(ticket);
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
};

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
  const Collected refused = answer(request);
  EXPECT_EQ(refused.finish, Finish::kError);
  EXPECT_NE(refused.error.find("context"), std::string::npos) << refused.error;
  EXPECT_TRUE(refused.tokens.empty());
}

TEST_F(EngineTest, AFullQueueRefusesInsteadOfGrowing) {
  std::vector<Ticket> tickets;
  bool refused = false;
  for (int i = 0; i < 12 && !refused; ++i) {
    RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 300);
    request.slot.eos.clear();
    Result<Ticket> ticket =
        engine_->submit(std::move(*Request::make(std::move(request), engine_->vocabulary())));
    if (ticket.ok()) {
      tickets.push_back(std::move(*ticket));
    } else {
      EXPECT_EQ(ticket.error().code, Code::kExhausted);
      refused = true;
    }
  }
  EXPECT_TRUE(refused);
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
  std::vector<Ticket> stuck;
  for (int i = 0; i < 3; ++i) {  // every slot
    RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 400);
    request.slot.eos.clear();
    stuck.push_back(submit(request));
  }
  EXPECT_EQ(answer(fields("Hello", DrafterKind::kAuto, 4)).tokens.size(), 4U) << "a slot became free";
  for (Ticket& ticket : stuck) {
    const Collected lost = collect(ticket);
    EXPECT_EQ(lost.finish, Finish::kCancelled);
    EXPECT_NE(lost.error.find("unread"), std::string::npos) << lost.error;
    EXPECT_LE(lost.tokens.size(), kUnread + kMaxDepth);
    EXPECT_GT(lost.tokens.size(), kUnread / 4) << "what was decoded before is there";
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
    EXPECT_EQ(plain[i].selected, drafted[i].selected);
    ASSERT_EQ(plain[i].top.size(), 5U);
    EXPECT_EQ(plain[i].top.front().logprob, drafted[i].top.front().logprob);
  }
}

}  // namespace
}  // namespace ft
