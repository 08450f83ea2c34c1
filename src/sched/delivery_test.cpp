// When readers get the decoded tokens: at the end of a step, or, with a separate device, while it computes
// the next one.
#include "backends/ref/backend.h"
#include "sched/scheduler.h"
#include "tests/late_backend.h"
#include "tests/toy_decoder.h"
#include "text/chat_format.h"

namespace ft::test::delivery_test {
namespace {

constexpr int kTokens = 24;

/// A reader that is told, and reads at once.
struct Reader {
  std::vector<std::int32_t> tokens;
  int told = 0, told_meanwhile = 0;  // meanwhile: while a submitted step waited
  bool over = false;
};

class Delivery : public testing::Test {
 protected:
  void begin(std::unique_ptr<Backend> backend, int slots = 2) {
    decoder_ = std::make_unique<ToyDecoder>(std::move(backend), slots);
    scheduler_ = std::make_unique<Scheduler>(
        **decoder_, tokenizer_, *find_chat_format("qwen3_5 without a grammar of calls"), SchedulerOptions{});
  }
  void ask(Reader& reader, std::size_t box = kMailboxEvents) {
    RequestFields fields;
    fields.prompt = {1, 2, 3};
    fields.slot.max_tokens = kTokens;
    fields.drafter = DrafterKind::kMtp;
    fields.parse = false;
    auto mailbox = std::make_shared<Mailbox>(box);
    mailbox->on_event([this, &reader, box = mailbox.get()](bool /*over*/) {
      ++reader.told;
      reader.told_meanwhile += report_.waiting > 0 ? 1 : 0;
      while (std::optional<Event> event = box->try_next()) {
        if (event->kind == Event::Kind::kToken) reader.tokens.push_back(event->token);
        reader.over = reader.over || event->kind == Event::Kind::kEnd;
        if (reader.over) return;
      }
    });
    scheduler_->admit(std::make_unique<Job>(std::move(*Request::make(fields, 101)), mailbox, 0.0));
    boxes_.push_back(std::move(mailbox));
  }
  int run() {
    int steps = 0;
    for (; !scheduler_->idle() && steps < 1000; ++steps) scheduler_->step();
    return steps;
  }

  const Tokenizer tokenizer_ = std::move(*Tokenizer::load("assets/qwen3.5-tiny"));
  LateReport report_;
  std::unique_ptr<ToyDecoder> decoder_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::shared_ptr<Mailbox>> boxes_;
};

TEST_F(Delivery, IsAtTheEndOfAStepThatTheHostComputes) {
  begin(make_ref_backend());
  Reader reader;
  ask(reader);
  for (int step = 1; !reader.over && step < 1000; ++step) {
    const std::size_t before = reader.tokens.size();
    scheduler_->step();
    EXPECT_GT(reader.tokens.size(), before) << "step " << step;
  }
  EXPECT_EQ(reader.tokens.size(), kTokens);
}

TEST_F(Delivery, IsWhileADeviceComputesTheNextStep) {
  begin(make_late_backend(make_ref_backend(), report_));
  Reader one, two;
  ask(one), ask(two);
  run();
  for (const Reader& reader : {one, two}) {
    EXPECT_TRUE(reader.over);
    EXPECT_EQ(reader.tokens.size(), kTokens);
    // All rounds but the last, and those before the prompt of the other request.
    EXPECT_GT(reader.told_meanwhile, 5);
    EXPECT_LE(reader.told - reader.told_meanwhile, 3);
  }
  EXPECT_EQ(one.tokens, two.tokens);
}

TEST_F(Delivery, DoesNotWaitForTheDeviceWhereNoRoundFollows) {
  begin(make_late_backend(make_ref_backend(), report_));
  Reader reader;
  ask(reader, 2);  // a full mailbox pauses its request: nothing is submitted until it was read
  run();
  EXPECT_TRUE(reader.over);
  EXPECT_EQ(reader.tokens.size(), kTokens);
}

TEST_F(Delivery, IsBeforeAnotherRequestBegins) {
  begin(make_late_backend(make_ref_backend(), report_));
  Reader first, second;
  ask(first);
  while (report_.collects < 2) scheduler_->step();
  const std::size_t before = first.tokens.size();
  ask(second);
  EXPECT_GT(first.tokens.size(), before) << "its round's tokens are there before the other's prompt";
  run();
  EXPECT_EQ(first.tokens, second.tokens);
}

}  // namespace
}  // namespace ft::test::delivery_test
