// The prefix cache of an engine, with the shipped model.
#include <filesystem>
#include <unistd.h>

#include "tests/small_engine.h"

namespace ft::test::engine_cache_test {
namespace {

class CachedEngine : public EngineTest {
 protected:
  void SetUp() override {
    load();
    options_.decoder.slots = 3;
    options_.decoder.context = 1024;
    options_.decoder.prefill_chunk = 64;
    options_.decoder.cache_bytes = 64 << 20;
    options_.snapshot_tokens = 128;
    start(options_);
  }

  /// The answer of an engine without a cache.
  Collected cold(const RequestFields& request) {
    std::swap(plain_, engine_);
    if (!engine_) start(options());
    Collected all = answer(request);
    std::swap(plain_, engine_);
    return all;
  }

  /// The next turn of a conversation: the request after `request` was answered with `tokens`.
  RequestFields next_turn(const RequestFields& request, const std::vector<std::int32_t>& tokens,
                          const std::string& user) {
    RequestFields next = request;
    next.prompt.insert(next.prompt.end(), tokens.begin(), tokens.end());
    const std::vector<std::int32_t> more = fields(user).prompt;
    next.prompt.insert(next.prompt.end(), more.begin(), more.end());
    return next;
  }

  EngineOptions options_;
  std::unique_ptr<Engine> plain_;
};

TEST_F(CachedEngine, ACacheHitGivesTheColdTokensInEveryTurn) {
  for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kAuto, DrafterKind::kNone}) {
    RequestFields request = fields("Write a Python function that adds two numbers.", kind, 24);
    request.slot.sampler.temperature = 0.8F;
    request.slot.depth = kind == DrafterKind::kNone ? 0 : 3;
    for (int turn = 0; turn < 4; ++turn) {
      request.slot.sampler.seed = static_cast<std::uint64_t>(turn) + 1;
      const Collected warm = answer(request);
      const Collected reference = cold(request);
      EXPECT_EQ(warm.tokens, reference.tokens) << "turn " << turn;
      EXPECT_EQ(warm.report.speculation.accepted_at, reference.report.speculation.accepted_at);
      EXPECT_EQ(reference.report.cached_tokens, 0);
      if (turn > 0) {
        EXPECT_GT(warm.report.cached_tokens, warm.report.prompt_tokens / 2) << "turn " << turn;
      }
      request = next_turn(request, warm.tokens, "Now multiply them.");
    }
    engine_->clear_cache();
  }
  EXPECT_GT(engine_->cache().tokens_saved, 100);
}

TEST_F(CachedEngine, ARestartOnTheSameFolderGivesTheColdTokens) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("foretoken_engine" + std::to_string(getpid()));
  options_.folder.directory = folder;
  RequestFields request = fields("Write a Python function that adds two numbers.", DrafterKind::kAuto, 40);
  request.prompt.insert(request.prompt.begin(), 80, 300);
  request.slot.eos.clear();
  for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kAuto, DrafterKind::kNone}) {
    request.drafter = kind;
    request.slot.depth = kind == DrafterKind::kNone ? 0 : 3;
    request.slot.sampler.temperature = kind == DrafterKind::kAuto ? 0 : 0.8F;
    RequestFields turn = request;
    for (int life = 0; life < 3; ++life) {
      start(options_);
      const Collected warm = answer(turn);
      const Collected reference = cold(turn);
      EXPECT_EQ(warm.tokens, reference.tokens) << life;
      EXPECT_EQ(warm.report.speculation.accepted_at, reference.report.speculation.accepted_at) << life;
      EXPECT_EQ(warm.report.speculation.drafted > 0, kind != DrafterKind::kNone);
      EXPECT_EQ(warm.report.cached_tokens > 80, life > 0) << life;
      EXPECT_EQ(engine_->cache().disk->hits, life > 0 ? 1 : 0);
      turn = next_turn(turn, warm.tokens, "Now multiply them.");
    }
    engine_.reset();
    std::filesystem::remove_all(folder);
  }
}

TEST_F(CachedEngine, AFolderOfKeysOf16BitsIsNotReadWith8ButItsOwnIs) {
  const auto folder = std::filesystem::temp_directory_path() / ("foretoken_bits" + std::to_string(getpid()));
  options_.folder.directory = folder;
  RequestFields request = fields("Write a Python function that adds two numbers.", DrafterKind::kAuto, 24);
  request.prompt.insert(request.prompt.begin(), 80, 300);
  for (const int kv_bits : {16, 8}) {
    engine_.reset(), plain_.reset();
    load(kv_bits);
    const std::vector<std::int32_t> tokens = cold(request).tokens;
    for (int life = 0; life < 2; ++life) {
      start(options_);
      EXPECT_EQ(engine_->cache().disk->files > 0, life > 0) << kv_bits << " bits, life " << life;
      const Collected warm = answer(request);
      EXPECT_EQ(warm.tokens, tokens) << kv_bits << " bits, life " << life;
      EXPECT_EQ(warm.report.cached_tokens > 80, life > 0) << kv_bits << " bits, life " << life;
    }
  }
  engine_.reset();
  std::filesystem::remove_all(folder);
}

TEST_F(CachedEngine, ClearingEmptiesTheFolderAndASecondEngineIsRefusedIt) {
  const auto folder = std::filesystem::temp_directory_path() / ("foretoken_clear" + std::to_string(getpid()));
  options_.folder.directory = folder;
  start(options_);
  RequestFields request = fields("Write a Python function that adds two numbers.", DrafterKind::kAuto, 8);
  request.prompt.insert(request.prompt.begin(), 80, 300);
  answer(request);
  while (engine_->cache().disk->files == 0) continue;
  const auto second = Engine::start(*backend_, *model_, *tokenizer_, options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kBusy);
  engine_->clear_cache();
  while (engine_->cache().disk->files > 0) continue;
  EXPECT_EQ(answer(request).report.cached_tokens, 0);
  engine_.reset();
  std::filesystem::remove_all(folder);
}

TEST_F(CachedEngine, TheSamePromptAgainComputesOnlyItsLastToken) {
  const RequestFields request = fields("What is the capital of France?", DrafterKind::kAuto, 8);
  const Collected first = answer(request);
  const Collected second = answer(request);
  EXPECT_EQ(first.report.cached_tokens, 0);
  EXPECT_EQ(second.report.cached_tokens, second.report.prompt_tokens - 1);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(engine_->status().cached_tokens, second.report.cached_tokens);
}

TEST_F(CachedEngine, ACancelledPromptIsContinuedWhereItStood) {
  RequestFields request = fields("Hello", DrafterKind::kAuto, 400);
  request.slot.eos.clear();
  Ticket ticket = submit(request);
  const Collected cut = collect(ticket, 5);
  ASSERT_EQ(cut.finish, Finish::kCancelled);
  RequestFields whole = request;
  whole.slot.max_tokens = static_cast<int>(cut.tokens.size()) + 40;  // the engine was a round or two ahead
  const std::vector<std::int32_t> tokens = cold(whole).tokens;
  whole.prompt.insert(whole.prompt.end(), tokens.begin(), tokens.end());
  whole.slot.max_tokens = 20;
  const Collected warm = answer(whole);
  EXPECT_GE(warm.report.cached_tokens, static_cast<int>(request.prompt.size() + cut.tokens.size()) - 1);
  EXPECT_EQ(warm.tokens, cold(whole).tokens);
}

/// Long prompts that diverge in the middle: the second stops where they diverge, and the third gains by it.
TEST_F(CachedEngine, WherePromptsPartIsKept) {
  RequestFields request = fields("Hello", DrafterKind::kAuto, 4);
  std::vector<std::int32_t> shared;
  for (int i = 0; i < 100; ++i) shared.push_back(300 + 13 * i);
  for (int i = 0; i < 3; ++i) {
    request.prompt = shared;
    for (int j = 0; j < 25; ++j) request.prompt.push_back(100 * (i + 1) + j);
    const Collected warm = answer(request);
    EXPECT_EQ(warm.report.cached_tokens, i < 2 ? 0 : 96) << i;
    EXPECT_EQ(warm.tokens, cold(request).tokens) << i;
  }
}

TEST_F(CachedEngine, ClearingForgetsEverything) {
  const RequestFields request = fields("What is the capital of France?", DrafterKind::kAuto, 8);
  answer(request);
  while (engine_->cache().snapshots == 0) continue;  // an end is reported before its step is published
  EXPECT_GT(engine_->cache().bytes, 0);
  engine_->clear_cache();
  EXPECT_EQ(answer(request).report.cached_tokens, 0);
}

TEST_F(CachedEngine, DrainingEndsWhatRunsAndRefusesTheRest) {
  RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 40);
  request.slot.eos.clear();
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) tickets.push_back(submit(request));
  EXPECT_TRUE(engine_->drain(60'000));
  for (Ticket& ticket : tickets) EXPECT_EQ(collect(ticket).tokens.size(), 40U);
  EXPECT_TRUE(engine_->status().draining);
  const Result<Ticket> late =
      engine_->submit(std::move(*Request::make(fields("Hello"), engine_->vocabulary())));
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("stopping"), std::string::npos) << late.error().message;
  EXPECT_EQ(engine_->status().refused, 1);
}

TEST_F(CachedEngine, DrainingCancelsWhatTakesTooLong) {
  RequestFields request = fields("Tell a long story.", DrafterKind::kAuto, 900);
  request.slot.eos.clear();
  std::vector<Ticket> tickets;
  for (int i = 0; i < 5; ++i) tickets.push_back(submit(request));
  EXPECT_FALSE(engine_->drain(1));
  for (Ticket& ticket : tickets) EXPECT_EQ(collect(ticket).finish, Finish::kCancelled);
  EXPECT_EQ(engine_->status().running, 0);
  EXPECT_EQ(engine_->status().waiting, 0);
}

TEST_F(CachedEngine, TheStatusCountsWhatTheReportsSay) {
  std::vector<RequestFields> requests = {fields("Hello", DrafterKind::kMtp), fields("Count to ten."),
                                         fields("Hi", DrafterKind::kNone)};
  Report sum;
  for (const RequestFields& request : requests) {
    const Report report = answer(request).report;
    sum.prompt_tokens += report.prompt_tokens, sum.completion_tokens += report.completion_tokens;
    sum.speculation.drafted += report.speculation.drafted;
    sum.speculation.accepted += report.speculation.accepted;
  }
  while (engine_->status().running > 0) continue;  // the step that ends a request is counted after the end
  const EngineStatus status = engine_->status();
  EXPECT_EQ(status.slots, 3);
  EXPECT_EQ(status.requests, 3);
  EXPECT_EQ(status.prompt_tokens, sum.prompt_tokens);
  EXPECT_EQ(status.emitted, sum.completion_tokens);
  EXPECT_EQ(status.drafted, sum.speculation.drafted);
  EXPECT_EQ(status.accepted, sum.speculation.accepted);
  EXPECT_EQ(status.time_to_first_token.count, 3);
  EXPECT_EQ(status.request_time.count, 3);
  EXPECT_LE(status.inter_token.count, sum.completion_tokens - 3);
  EXPECT_EQ(status.not_engaged.at("the drafter is none"), 1);
}

}  // namespace
}  // namespace ft::test::engine_cache_test
