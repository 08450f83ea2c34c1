// How prompts and running answers share the steps. The clock counts steps alone: a chunk of a prompt takes
// 10 ms, a round 1 ms.
#include <algorithm>
#include <string>

#include "backends/ref/backend.h"
#include "program/forwarding_backend.h"
#include "sched/scheduler.h"
#include "tests/toy_decoder.h"
#include "text/chat_format.h"

namespace ft::test::prompt_share_test {
namespace {

/// 'p' for each chunk of a prompt and 'r' for each round.
using Steps = std::string;

constexpr double kPromptMs = 10, kRoundMs = 1;

class Recorded final : public ForwardingExecutable {
 public:
  Recorded(std::unique_ptr<Executable> inner, Steps& steps)
      : ForwardingExecutable(std::move(inner)), steps_(steps) {}
  void submit(const StepArgs& args, State& state) override {
    steps_.push_back(args.logit_rows.empty() ? 'p' : 'r');
    inner().submit(args, state);
  }

 private:
  Steps& steps_;
};

class RecordingBackend final : public ForwardingBackend {
 public:
  explicit RecordingBackend(Steps& steps) : ForwardingBackend(make_ref_backend()), steps_(steps) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> executable, inner().compile(program, options));
    return std::unique_ptr<Executable>(std::make_unique<Recorded>(std::move(executable), steps_));
  }

 private:
  Steps& steps_;
};

class PromptShare : public testing::Test {
 protected:
  void ask(std::int64_t prompt_tokens) {
    RequestFields fields;
    for (std::int64_t i = 0; i < prompt_tokens; ++i) fields.prompt.push_back(1 + static_cast<int>(i % 7));
    fields.slot.max_tokens = 900;
    fields.drafter = DrafterKind::kNone;
    fields.parse = false;
    boxes_.push_back(std::make_shared<Mailbox>(kMailboxEvents));
    scheduler_.admit(std::make_unique<Job>(std::move(*Request::make(fields, 101)), boxes_.back(), now()));
  }
  /// The steps until `chunks` chunks of prompts were read.
  Steps run_until(int chunks) {
    const std::size_t from = steps_.size();
    while (std::count(steps_.begin() + static_cast<std::ptrdiff_t>(from), steps_.end(), 'p') < chunks)
      scheduler_.step();
    return steps_.substr(from);
  }
  double now() const {
    const auto prompts = static_cast<double>(std::count(steps_.begin(), steps_.end(), 'p'));
    return prompts * kPromptMs + (static_cast<double>(steps_.size()) - prompts) * kRoundMs;
  }
  /// Rounds after each chunk, the last left out.
  static std::vector<std::size_t> rounds_after_chunks(const Steps& steps) {
    std::vector<std::size_t> rounds;
    for (std::size_t at = steps.find('p'); at != Steps::npos;) {
      const std::size_t next = steps.find('p', at + 1);
      if (next != Steps::npos) rounds.push_back(next - at - 1);
      at = next;
    }
    return rounds;
  }

  static constexpr std::size_t kFull = 17;  // Scheduler::kRoundsPerPrompt * kPromptMs / kRoundMs

  Steps steps_;
  ToyDecoder decoder_{std::make_unique<RecordingBackend>(steps_), 8, {}, 1024};
  const Tokenizer tokenizer_ = std::move(*Tokenizer::load("assets/qwen3.5-tiny"));
  std::vector<std::shared_ptr<Mailbox>> boxes_;
  Scheduler scheduler_{*decoder_,
                       tokenizer_,
                       *find_chat_format("qwen3_5 without a grammar of calls"),
                       {60'000, 2048, [this] { return now(); }}};
};

TEST_F(PromptShare, AnswersKeepMoreThanHalfOfTheTimeWhileOneLongPromptIsRead) {
  ask(3);
  run_until(1);
  ask(600);
  const std::vector<std::size_t> rounds = rounds_after_chunks(run_until(8));
  ASSERT_EQ(rounds.size(), 7);
  for (const std::size_t count : rounds) EXPECT_EQ(count, kFull);
}

TEST_F(PromptShare, RoundsOfFewAnswersTakeLessWhileMorePromptsWait) {
  ask(3);
  run_until(1);
  for (int i = 0; i < 7; ++i) ask(30 + i);
  const std::vector<std::size_t> rounds = rounds_after_chunks(run_until(7));
  // The first chunk is short and ends no prompt. After the second, two answers run and six prompts wait, and
  // so on.
  EXPECT_EQ(rounds, (std::vector<std::size_t>{3, 6, 11, kFull, kFull, kFull}));
}

/// A prompt of 60 tokens shows that six rows take as long as a step alone.
TEST_F(PromptShare, PromptsWhoseRowsTakeLessThanAStepShareOne) {
  ask(60);
  run_until(1);
  for (const int tokens : {4, 40, 5, 3}) ask(tokens);
  run_until(1);
  EXPECT_EQ(scheduler_.status().prefilling, 1) << "three were read together";
  run_until(1);
  EXPECT_EQ(scheduler_.status().prefilling, 0);
  for (const int tokens : {30, 30}) ask(tokens);
  run_until(1);
  EXPECT_EQ(scheduler_.status().prefilling, 1) << "longer ones are read in turn";
}

TEST_F(PromptShare, PromptsAreReadAtOnceWhereNothingRuns) {
  ask(300), ask(300);
  const Steps steps = run_until(4);
  EXPECT_EQ(steps, "pppp");
}

}  // namespace
}  // namespace ft::test::prompt_share_test
