// Answers end where they should, also in the middle of an accepted block, and exactly the emitted tokens are
// counted.
#include <algorithm>
#include <random>

#include "tests/toy_decoder.h"

namespace ft::test::ending_test {
namespace {

class Ending : public testing::Test {
 protected:
  static constexpr int kRecorded = 60;

  void SetUp() override {
    std::mt19937 random(2);
    for (int i = 0; i < 9; ++i) prompt_.push_back(static_cast<std::int32_t>(random() % 101));
    options_.max_tokens = kRecorded;
    options_.sampler.temperature = 1;  // varied text: every token may be an end
    plain_ = decoder_.answer(prompt_, options_);
    std::vector<std::int32_t> all = prompt_;
    all.insert(all.end(), plain_.begin(), plain_.end());
    decoder_->force(std::vector<double>(kMaxDraftTokens, 1.0), 1).record(all);
    options_.depth = kMaxDraftTokens;
    options_.max_tokens = 40;
  }

  std::unique_ptr<Slot> run(const SlotOptions& options) {
    auto slot = decoder_.open(prompt_, options, SyntheticDrafter::kKind);
    decoder_.finish(*slot);
    expect_counts(*slot);
    decoder_->close(*slot);
    return slot;
  }

  void expect_prefix(const Slot& slot, std::size_t count) {
    EXPECT_EQ(ToyDecoder::output(slot),
              std::vector<std::int32_t>(plain_.begin(), plain_.begin() + static_cast<std::ptrdiff_t>(count)));
  }

  /// Every round emits its accepted drafts and one token more, except a last one that ended within its
  /// drafts.
  static void expect_counts(const Slot& slot) {
    const SpeculationReport& report = slot.report;
    EXPECT_EQ(report.emitted, slot.output_tokens());
    const std::int64_t whole = report.accepted + report.rounds;
    EXPECT_TRUE(report.emitted == whole || report.emitted == whole - 1) << report.emitted << " of " << whole;
    std::int64_t drafted = 0, accepted = 0;
    for (std::size_t i = 0; i < kMaxDraftTokens; ++i) {
      drafted += report.drafted_at[i], accepted += report.accepted_at[i];
      EXPECT_LE(report.accepted_at[i], report.drafted_at[i]);
      EXPECT_LE(report.accepted_at[i], report.accepted_at[i > 0 ? i - 1 : 0]);
    }
    EXPECT_EQ(drafted, report.drafted);
    EXPECT_EQ(accepted, report.accepted);
  }

  ToyDecoder decoder_{1};
  std::vector<std::int32_t> prompt_, plain_;
  SlotOptions options_;
};

TEST_F(Ending, AnEndTokenInABlockIsTheLastToken) {
  for (std::size_t at = 0; at < 30; ++at) {
    SlotOptions options = options_;
    options.eos = {1000, plain_[at]};
    const auto first =
        static_cast<std::size_t>(std::find(plain_.begin(), plain_.end(), plain_[at]) - plain_.begin());
    const auto slot = run(options);
    EXPECT_EQ(slot->finish, Finish::kStop);
    expect_prefix(*slot, first + 1);
  }
}

TEST_F(Ending, MaxTokensIsReachedAndNeverExceeded) {
  for (int count = 1; count <= 30; ++count) {
    SlotOptions options = options_;
    options.max_tokens = count;
    const auto slot = run(options);
    EXPECT_EQ(slot->finish, Finish::kLength);
    expect_prefix(*slot, static_cast<std::size_t>(count));
  }
}

TEST_F(Ending, NothingIsDraftedBeyondTheBudget) {
  for (int count = 1; count <= 30; ++count) {
    SlotOptions options = options_;
    options.max_tokens = count;
    // All drafts are right, so one that is not accepted was drafted beyond the end.
    const auto by_count = run(options);
    EXPECT_EQ(by_count->report.drafted, by_count->report.accepted) << count;
    EXPECT_LE(by_count->report.drafted, count - 1);
    options = options_;
    options.context = static_cast<std::int64_t>(prompt_.size()) + count;
    const auto by_context = run(options);
    EXPECT_EQ(by_context->report.drafted, by_context->report.accepted) << count;
  }
}

TEST_F(Ending, AFullContextEndsTheAnswer) {
  for (int room = 1; room <= 30; ++room) {
    SlotOptions options = options_;
    options.context = static_cast<std::int64_t>(prompt_.size()) + room;
    const auto slot = run(options);
    EXPECT_EQ(slot->finish, Finish::kContext);
    EXPECT_EQ(static_cast<std::int64_t>(slot->tokens.size()), options.context);
    expect_prefix(*slot, static_cast<std::size_t>(room));
  }
}

TEST_F(Ending, TheListenerSeesEveryTokenOnceAndMayEndTheAnswer) {
  SlotOptions options = options_;
  options.logprobs = 0;  // asks for logits
  for (int stop = 1; stop <= 24; ++stop) {
    auto slot = decoder_.open(prompt_, options, SyntheticDrafter::kKind);
    std::vector<std::int32_t> heard;
    slot->on_token = [&](std::int32_t token, std::span<const float> logits, std::string_view) {
      EXPECT_EQ(logits.size(), 101U);
      heard.push_back(token);
      return static_cast<int>(heard.size()) == stop;
    };
    decoder_.finish(*slot);
    EXPECT_EQ(slot->finish, Finish::kStop);
    EXPECT_EQ(heard, ToyDecoder::output(*slot));
    expect_prefix(*slot, static_cast<std::size_t>(stop));
    expect_counts(*slot);
    decoder_->close(*slot);
  }
}

TEST_F(Ending, TheListenerGetsTheLogitsOfItsOwnRow) {
  std::vector<std::vector<float>> plain_logits, block_logits;
  SlotOptions options = options_;
  options.logprobs = 0;
  for (const DrafterKind kind : {DrafterKind::kNone, SyntheticDrafter::kKind}) {
    auto& logits_of = kind == DrafterKind::kNone ? plain_logits : block_logits;
    auto slot = decoder_.open(prompt_, options, kind);
    slot->on_token = [&](std::int32_t, std::span<const float> logits, std::string_view) {
      logits_of.emplace_back(logits.begin(), logits.end());
      return false;
    };
    decoder_.finish(*slot);
    decoder_->close(*slot);
  }
  EXPECT_EQ(plain_logits, block_logits);
}

TEST_F(Ending, AListenerThatAskedForNoLogProbabilitiesGetsNoLogits) {
  auto slot = decoder_.open(prompt_, options_, SyntheticDrafter::kKind);
  slot->on_token = [&](std::int32_t, std::span<const float> logits, std::string_view) {
    EXPECT_TRUE(logits.empty());
    return false;
  };
  decoder_.finish(*slot);
  decoder_->close(*slot);
}

TEST_F(Ending, AnEndTokenAtTheLimitIsAStop) {
  SlotOptions options = options_;
  std::size_t last = 5;  // a token that did not come before
  while (std::find(plain_.begin(), plain_.begin() + static_cast<std::ptrdiff_t>(last), plain_[last]) !=
         plain_.begin() + static_cast<std::ptrdiff_t>(last)) {
    ++last;
  }
  options.eos = {plain_[last]};
  options.max_tokens = static_cast<int>(last) + 1;
  EXPECT_EQ(run(options)->finish, Finish::kStop);
}

TEST_F(Ending, NeighboursGoOnWhereOneEnds) {
  ToyDecoder pair(2);
  std::vector<std::int32_t> all = prompt_;
  all.insert(all.end(), plain_.begin(), plain_.end());
  pair->force(std::vector<double>(kMaxDraftTokens, 1.0), 1).record(all);
  SlotOptions brief = options_;
  brief.max_tokens = 5;
  const auto a = pair.open(prompt_, brief, SyntheticDrafter::kKind);
  const auto b = pair.open(prompt_, options_, SyntheticDrafter::kKind);
  std::vector<Slot*> running = {a.get(), b.get()};
  while (!running.empty()) {
    pair->round(running);
    std::erase_if(running, [](const Slot* slot) { return slot->finish != Finish::kNone; });
  }
  expect_prefix(*a, 5);
  expect_prefix(*b, 40);
}

}  // namespace
}  // namespace ft::test::ending_test
