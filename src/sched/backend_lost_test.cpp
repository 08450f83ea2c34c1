// After the device is lost, every waiting request gets an error, and no request is admitted.
#include "tests/late_backend.h"
#include "tests/small_engine.h"

namespace ft::test::backend_lost_test {
namespace {

class BackendLostTest : public EngineTest {
 protected:
  void SetUp() override {
    load();
    backend_ = make_late_backend(std::move(backend_), report_);
    start(options());
  }
  void TearDown() override { engine_.reset(); }

  LateReport report_;
};

TEST_F(BackendLostTest, ALateBackendAnswersLikeOneThatRunsAtOnce) {
  const std::string prompt = "Write a Python function that adds two numbers.";
  const Collected late = answer(fields(prompt, DrafterKind::kMtp));
  EXPECT_GT(late.report.speculation.accepted, 0);
  load();
  start(options());
  EXPECT_EQ(answer(fields(prompt, DrafterKind::kMtp)).tokens, late.tokens);
}

TEST_F(BackendLostTest, EveryRequestEndsWithTheSentenceAndNoOtherIsAdmitted) {
  EXPECT_EQ(engine_->status().lost, "");
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) {  // three have a slot, two wait for one
    RequestFields request = fields("Tell a long story.", DrafterKind::kMtp, 400);
    request.slot.eos.clear();
    tickets.push_back(submit(std::move(request)));
  }
  while (tickets[0].next().kind != Event::Kind::kToken) {
  }
  report_.lost = true;
  for (Ticket& ticket : tickets) {
    const Collected ended = collect(ticket);
    EXPECT_EQ(ended.finish, Finish::kError);
    EXPECT_EQ(ended.error.message, "the backend is lost: the device fell off the bus; restart the program");
  }
  for (;;) {  // requests that arrive before the engine reports it end in the same way
    auto next = engine_->submit(std::move(*Request::make(fields("Hello"), engine_->vocabulary())));
    if (next.ok()) {
      EXPECT_EQ(collect(*next).finish, Finish::kError);
      continue;
    }
    EXPECT_EQ(next.error().code, Code::kCancelled);
    EXPECT_EQ(next.error().message, engine_->status().lost);
    break;
  }
  EXPECT_EQ(engine_->status().lost, "the backend is lost: the device fell off the bus; restart the program");
}

}  // namespace
}  // namespace ft::test::backend_lost_test
