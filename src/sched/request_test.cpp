#include "sched/request.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <thread>

namespace ft::request_test {
namespace {

constexpr int kVocabulary = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

RequestFields valid() {
  RequestFields fields;
  fields.prompt = {1, 2, 99};
  fields.slot.max_tokens = 1;
  return fields;
}

using Change = std::function<void(RequestFields&)>;

std::string refusal(const Change& change) {
  RequestFields fields = valid();
  change(fields);
  const Result<Request> request = Request::make(std::move(fields), kVocabulary);
  if (!request.ok()) {
    EXPECT_EQ(request.error().code, Code::kInvalid);
  }
  return request.ok() ? "" : request.error().message;
}

TEST(Request, NamesTheFieldThatIsBeyondItsLimitAndTakesTheLimitItself) {
  struct Limit {
    const char* field;
    Change at, beyond;
  };
  const Limit limits[] = {
      {"temperature", [](auto& f) { f.slot.sampler.temperature = 100; },
       [](auto& f) { f.slot.sampler.temperature = 100.1F; }},
      {"temperature", [](auto& f) { f.slot.sampler.temperature = 0; },
       [](auto& f) { f.slot.sampler.temperature = -0.1F; }},
      {"top_k", [](auto& f) { f.slot.sampler.top_k = 0; }, [](auto& f) { f.slot.sampler.top_k = -1; }},
      {"top_p", [](auto& f) { f.slot.sampler.top_p = 1; }, [](auto& f) { f.slot.sampler.top_p = 1.01F; }},
      {"top_p", [](auto& f) { f.slot.sampler.top_p = 1e-6F; }, [](auto& f) { f.slot.sampler.top_p = 0; }},
      {"min_p", [](auto& f) { f.slot.sampler.min_p = 0; }, [](auto& f) { f.slot.sampler.min_p = -0.1F; }},
      {"min_p", [](auto& f) { f.slot.sampler.min_p = 1; }, [](auto& f) { f.slot.sampler.min_p = 1.001F; }},
      {"repetition_penalty", [](auto& f) { f.slot.sampler.repetition = 10; },
       [](auto& f) { f.slot.sampler.repetition = 0; }},
      {"presence_penalty", [](auto& f) { f.slot.sampler.presence = -10; },
       [](auto& f) { f.slot.sampler.presence = 10.1F; }},
      {"frequency_penalty", [](auto& f) { f.slot.sampler.frequency = 10; },
       [](auto& f) { f.slot.sampler.frequency = -10.1F; }},
      {"max_tokens", [](auto& f) { f.slot.max_tokens = 1; }, [](auto& f) { f.slot.max_tokens = 0; }},
      {"depth", [](auto& f) { f.slot.depth = kMaxDraftTokens; },
       [](auto& f) { f.slot.depth = kMaxDraftTokens + 1; }},
      {"depth", [](auto& f) { f.slot.depth = -1; }, [](auto& f) { f.slot.depth = -2; }},
      {"logprobs", [](auto& f) { f.slot.logprobs = 20; }, [](auto& f) { f.slot.logprobs = 21; }},
      {"logit_bias", [](auto& f) { f.slot.bias = {{99, 1}}; }, [](auto& f) { f.slot.bias = {{100, 1}}; }},
      {"logit_bias", [](auto& f) { f.slot.bias = {{0, 1}}; }, [](auto& f) { f.slot.bias = {{-1, 1}}; }},
      {"prompt", [](auto& f) { f.prompt = {0, 99}; }, [](auto& f) { f.prompt = {100}; }},
      {"prompt", [](auto& f) { f.prompt = {0}; }, [](auto& f) { f.prompt = {}; }},
      {"stop", [](auto& f) { f.stops.assign(kMaxStops, "x"); },
       [](auto& f) { f.stops.assign(kMaxStops + 1, "x"); }},
      {"stop", [](auto& f) { f.stops = {std::string(kMaxStopBytes, 'x')}; },
       [](auto& f) { f.stops = {std::string(kMaxStopBytes + 1, 'x')}; }},
      {"stop", [](auto& f) { f.stops = {"a"}; }, [](auto& f) { f.stops = {"a", ""}; }},
  };
  for (const Limit& limit : limits) {
    EXPECT_EQ(refusal(limit.at), "") << limit.field;
    EXPECT_NE(refusal(limit.beyond).find(limit.field), std::string::npos)
        << limit.field << ": " << refusal(limit.beyond);
  }
}

TEST(Request, NoNumberThatIsNoneGetsIn) {
  const Change changes[] = {
      [](auto& f) { f.slot.sampler.temperature = kNan; },
      [](auto& f) { f.slot.sampler.top_p = kNan; },
      [](auto& f) { f.slot.sampler.min_p = kNan; },
      [](auto& f) { f.slot.sampler.repetition = kNan; },
      [](auto& f) { f.slot.sampler.presence = kNan; },
      [](auto& f) { f.slot.sampler.frequency = kNan; },
      [](auto& f) { f.slot.bias = {{1, kNan}}; },
      [](auto& f) { f.slot.sampler.temperature = std::numeric_limits<float>::infinity(); }};
  for (const Change& change : changes) EXPECT_NE(refusal(change), "");
}

TEST(Request, SortsTheBiasAndRefusesATokenGivenTwice) {
  RequestFields fields = valid();
  fields.slot.bias = {{50, 1}, {3, 2}, {70, 3}};
  const Result<Request> request = Request::make(std::move(fields), kVocabulary);
  ASSERT_TRUE(request.ok());
  const auto& bias = request->fields().slot.bias;
  ASSERT_EQ(bias.size(), 3U);
  EXPECT_EQ(bias[0].token, 3);
  EXPECT_EQ(bias[0].value, 2);
  EXPECT_EQ(bias[2].token, 70);
  EXPECT_EQ(refusal([](auto& f) { f.slot.bias = {{5, 1}, {2, 1}, {5, 2}}; }),
            "logit_bias: token id 5 is given twice");
}

Event token(std::int32_t id) {
  Event event;
  event.kind = Event::Kind::kToken;
  event.token = id;
  return event;
}

Event end() {
  Event event;
  event.kind = Event::Kind::kEnd;
  return event;
}

TEST(Mailbox, GivesEventsInOrderToAReaderWhoWaitsForThem) {
  constexpr int kCount = 5000;
  auto box = std::make_shared<Mailbox>(kCount);
  Ticket ticket(box);
  std::thread engine([&] {
    for (int i = 0; i < kCount; ++i) box->post(token(i));
    box->post(end());
  });
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(ticket.next().token, i);
  EXPECT_EQ(ticket.next().kind, Event::Kind::kEnd);
  engine.join();
}

TEST(Mailbox, CancelLetsOnlyTheEndThrough) {
  auto box = std::make_shared<Mailbox>();
  Ticket ticket(box);
  box->post(token(1));
  ticket.cancel();
  box->post(token(-5));
  box->post(end());
  EXPECT_TRUE(box->cancelled());
  EXPECT_EQ(ticket.next().token, 1);
  EXPECT_EQ(ticket.next().kind, Event::Kind::kEnd);
}

TEST(Mailbox, IsFullFromItsLimitUntilHalfIsReadAndLosesNothing) {
  constexpr int kLimit = 10;
  Mailbox box(kLimit);
  for (int i = 0; i < kLimit - 1; ++i) box.post(token(i));
  EXPECT_FALSE(box.full()) << "below the limit";
  box.post(token(kLimit - 1));
  EXPECT_TRUE(box.full()) << "at the limit";
  box.post(token(kLimit));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(box.next().token, i);
  EXPECT_TRUE(box.full()) << "six are left";
  ASSERT_EQ(box.next().token, 5);
  EXPECT_FALSE(box.full()) << "half is left";
  for (int i = 6; i <= kLimit; ++i) ASSERT_EQ(box.try_next()->token, i);
  EXPECT_FALSE(box.try_next().has_value());
}

TEST(Mailbox, TellsWhoAskedOnceAStepAndNobodyAfterwards) {
  auto box = std::make_shared<Mailbox>();
  int told = 0;
  bool ended = false;
  {
    Ticket ticket(box);
    ticket.on_event([&](bool over) {
      ++told;
      ended = over;
    });
    box->post(token(1));
    box->post(token(2));
    EXPECT_EQ(told, 0) << "a step may post several";
    box->notify();
    box->notify();
    EXPECT_EQ(told, 1);
    EXPECT_FALSE(ended);
    box->post(end());
    box->notify();
    EXPECT_EQ(told, 2);
    EXPECT_TRUE(ended) << "the end is told as such";
  }
  box->post(end());
  box->notify();
  EXPECT_EQ(told, 2) << "the ticket is gone";
}

TEST(Mailbox, WhatIsReadMakesRoom) {
  Mailbox box(3);
  for (int i = 0; i < 100; ++i) {
    box.post(token(i));
    box.post(token(i));
    EXPECT_EQ(box.next().token, i);
    EXPECT_EQ(box.next().token, i);
    ASSERT_FALSE(box.full());
  }
}

TEST(Ticket, ThatIsLeftBehindCancels) {
  auto box = std::make_shared<Mailbox>();
  {
    Ticket first(box);
    const Ticket moved = std::move(first);
    EXPECT_FALSE(box->cancelled());
  }
  EXPECT_TRUE(box->cancelled());
}

TEST(Report, HasASpeedOnlyWhereTimeWasTaken) {
  Report report;
  EXPECT_EQ(report.tokens_per_second(), 0);
  report.completion_tokens = 50;
  report.decode_ms = 250;
  EXPECT_EQ(report.tokens_per_second(), 200);
}

}  // namespace
}  // namespace ft::request_test
