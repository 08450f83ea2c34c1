// A constraint in every verified row: the same tokens with any drafter, depth and neighbours, all allowed;
// jump-forward tokens are drafted without cost; a missing mask ends the answer with an error sentence.
#include "sampling/constraint.h"

#include <algorithm>
#include <random>
#include <set>

#include "tests/late_backend.h"
#include "tests/toy_decoder.h"

namespace ft::test::constraint_test {
namespace {

constexpr int kVocabulary = 101;
constexpr std::size_t kWords = (kVocabulary + 31) / 32;

/// Calls to the constraints of one slot.
struct Asked {
  int computed = 0;  // masks
  int forced = 0;    // tokens
  std::string broken;
};

/// A hash of the last two tokens decides what is allowed: often one token or a few, seldom all.
class FakeConstraint final : public Constraint {
 public:
  /// Rows without a mask: none; two of three, which free_rows denies; the same, told; all.
  enum class Free { kNone, kDenied, kTold, kAll };

  /// At `ends_at` tokens there is no further mask, and none for a row after `most_drafts` drafts.
  explicit FakeConstraint(Asked& asked, std::size_t ends_at = 1000, std::size_t most_drafts = 1000,
                          Free free = Free::kNone)
      : asked_(asked), ends_at_(ends_at), most_drafts_(most_drafts), free_(free) {}

  std::optional<std::span<const std::uint32_t>> mask(std::span<const std::int32_t> drafts) override {
    if (!allows(drafts) || (masks_.size() <= drafts.size() && !compute())) return std::nullopt;
    return masks_[drafts.size()];
  }

  bool allows(std::span<const std::int32_t> drafts) override {
    std::size_t same = 0;
    while (same < std::min(drafts.size(), drafts_.size()) && drafts[same] == drafts_[same]) ++same;
    if (same < drafts.size()) {
      drafts_.resize(same);
      if (masks_.size() > same + 1) masks_.resize(same + 1);
    }
    while (drafts_.size() < drafts.size()) {
      if (!compute() || !bit(masks_[drafts_.size()], drafts[drafts_.size()])) return false;
      drafts_.push_back(drafts[drafts_.size()]);
    }
    return true;
  }

  int jump_forward(std::span<std::int32_t> out) override {
    std::vector<std::int32_t> tokens = emitted_;
    std::size_t count = 0;
    for (; count < out.size() && tokens.size() < ends_at_; ++count) {
      const std::vector<std::uint32_t> words = mask_behind(tokens);
      if (words.empty() || popcount(words) != 1) break;
      std::int32_t only = 0;
      while (!bit(words, only)) ++only;
      tokens.push_back(out[count] = only);
    }
    asked_.forced += static_cast<int>(count);
    return static_cast<int>(count);
  }

  void commit(std::span<const std::int32_t> tokens) override {
    for (const std::int32_t token : tokens) {
      if (!bit(mask_behind(emitted_), token)) asked_.broken = "a forbidden token was emitted";
      emitted_.push_back(token);
    }
    drafts_.clear(), masks_.clear();
  }

  std::size_t free_rows(std::span<const std::int32_t> coming) const override {
    std::vector<std::int32_t> tokens = emitted_;
    std::size_t rows = 0;
    while (free_ > Free::kDenied && mask_behind(tokens).empty()) {
      if (rows == coming.size()) return rows + 1;
      tokens.push_back(coming[rows++]);
    }
    return rows;
  }

  Error problem() const override {
    return {Code::kInvalid, emitted_.size() >= ends_at_ ? "the fake has ended" : ""};
  }

 private:
  static bool bit(const std::vector<std::uint32_t>& words, std::int32_t token) {
    return token >= 0 && token < kVocabulary &&
           (words.empty() || (words[static_cast<std::size_t>(token) / 32] >> (token % 32)) & 1U) != 0;
  }
  static int popcount(const std::vector<std::uint32_t>& words) {
    int count = 0;
    for (const std::uint32_t word : words) count += std::popcount(word);
    return count;
  }
  std::vector<std::uint32_t> mask_behind(const std::vector<std::int32_t>& tokens) const {
    const std::size_t n = tokens.size();
    const auto last = static_cast<unsigned>(n > 0 ? tokens[n - 1] : 0);
    if (free_ == Free::kAll || (free_ != Free::kNone && last % 3 != 0)) return {};
    std::mt19937 random(last * 977 + static_cast<unsigned>(n > 1 ? tokens[n - 2] : 0));
    std::vector<std::uint32_t> words(kWords, 0);
    const unsigned kind = random() % 5;
    const int count = kind < 2 ? 1 : kind < 4 ? 12 : 5 * kVocabulary;
    for (int i = 0; i < count; ++i) {
      const unsigned token = random() % kVocabulary;
      words[token / 32] |= 1U << (token % 32);
    }
    return words;
  }
  /// The mask after drafts_.
  bool compute() {
    if (emitted_.size() + drafts_.size() >= ends_at_ || drafts_.size() >= most_drafts_) return false;
    if (masks_.size() > drafts_.size()) return true;
    ++asked_.computed;
    std::vector<std::int32_t> tokens = emitted_;
    tokens.insert(tokens.end(), drafts_.begin(), drafts_.end());
    masks_.push_back(mask_behind(tokens));
    return true;
  }

  Asked& asked_;
  std::size_t ends_at_, most_drafts_;
  Free free_;
  std::vector<std::int32_t> emitted_, drafts_;
  std::vector<std::vector<std::uint32_t>> masks_;  // of the rows up to drafts_.size()
};

std::vector<std::int32_t> prompt(unsigned which) {
  std::mt19937 random(which + 3);
  std::vector<std::int32_t> tokens;
  for (unsigned i = 0; i < 14 + 9 * which; ++i) {
    tokens.push_back(static_cast<std::int32_t>(random() % kVocabulary));
  }
  tokens.insert(tokens.end(), tokens.begin(), tokens.begin() + 7);
  return tokens;
}

SlotOptions options(unsigned which, int depth, Acceptance acceptance = Acceptance::kCoupled) {
  SlotOptions out;
  out.max_tokens = 40;
  out.depth = depth;
  out.acceptance = acceptance;
  out.sampler.seed = 5 + which;
  out.sampler.temperature = which == 0 ? 0.0F : 0.9F;
  if (which == 2) out.sampler.repetition = 1.3F, out.sampler.frequency = 0.5F;
  return out;
}

/// On a backend that runs steps at once, and on one that runs them when it must.
class Constrained : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Backend> backend() {
    return GetParam() ? make_late_backend(make_ref_backend(), report_) : make_ref_backend();
  }
  std::unique_ptr<Slot> open(unsigned which, DrafterKind kind, int depth, Asked& asked,
                             Acceptance acceptance = Acceptance::kCoupled,
                             FakeConstraint::Free free = FakeConstraint::Free::kNone) {
    std::unique_ptr<Slot> slot = decoder_.open(prompt(which), options(which, depth, acceptance), kind);
    slot->constraint = std::make_unique<FakeConstraint>(asked, 1000, 1000, free);
    return slot;
  }
  std::vector<std::int32_t> finish(Slot& slot, const Asked& asked) {
    decoder_.finish(slot);
    EXPECT_EQ(asked.broken, "");
    std::vector<std::int32_t> tokens = ToyDecoder::output(slot);
    decoder_->close(slot);
    return tokens;
  }
  std::vector<std::int32_t> plain(unsigned which) {
    Asked asked;
    const auto slot = open(which, DrafterKind::kNone, 0, asked);
    std::vector<std::int32_t> tokens = finish(*slot, asked);
    EXPECT_EQ(asked.forced, 0) << "plain decoding drafts nothing";
    return tokens;
  }

  LateReport report_;
  ToyDecoder decoder_{backend(), 3};
};

INSTANTIATE_TEST_SUITE_P(Steps, Constrained, testing::Bool(),
                         [](const auto& param) { return param.param ? "Late" : "AtOnce"; });

constexpr DrafterKind kDrafters[] = {DrafterKind::kMtp, DrafterKind::kLookup, DrafterKind::kAuto};

TEST_P(Constrained, AnyDrafterAndDepthGivesThePlainTokens) {
  std::int64_t drafted = 0, accepted = 0, forced = 0;
  for (unsigned which = 0; which < 3; ++which) {
    const std::vector<std::int32_t> expected = plain(which);
    for (const DrafterKind kind : kDrafters) {
      for (int depth = -1; depth <= kMaxDraftTokens; ++depth) {
        Asked asked;
        const auto slot = open(which, kind, depth, asked);
        EXPECT_EQ(finish(*slot, asked), expected) << "prompt " << which << " depth " << depth;
        drafted += slot->report.drafted, accepted += slot->report.accepted, forced += asked.forced;
        EXPECT_TRUE(depth != 0 || slot->report.drafted == 0);
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(drafted, accepted);
  EXPECT_GT(forced, 0);
}

TEST_P(Constrained, FreeRowsAreThoseOfTheirMasks) {
  using Free = FakeConstraint::Free;
  std::int64_t accepted = 0, computed = 0, denied = 0;
  for (unsigned which = 0; which < 3; ++which) {
    Asked always;
    const auto plain_slot = open(which, DrafterKind::kNone, 0, always, Acceptance::kCoupled, Free::kDenied);
    const std::vector<std::int32_t> expected = finish(*plain_slot, always);
    denied += always.computed;
    for (const DrafterKind kind : {DrafterKind::kNone, DrafterKind::kMtp, DrafterKind::kLookup}) {
      for (int depth = 0; depth <= kMaxDraftTokens; ++depth) {
        Asked asked;
        const auto slot = open(which, kind, depth, asked, Acceptance::kCoupled, Free::kTold);
        EXPECT_EQ(finish(*slot, asked), expected) << "prompt " << which << " depth " << depth;
        accepted += slot->report.accepted;
        if (kind == DrafterKind::kNone && depth == 0) computed += asked.computed;
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(denied, 2 * computed) << "free rows have no mask";
}

TEST_P(Constrained, AFreeAnswerCostsNoRoundAndNoWait) {
  for (const DrafterKind kind : kDrafters) {
    Asked asked;
    const auto with = open(1, kind, 4, asked, Acceptance::kCoupled, FakeConstraint::Free::kAll);
    const std::vector<std::int32_t> tokens = finish(*with, asked);
    const auto without = decoder_.open(prompt(1), options(1, 4), kind);
    decoder_.finish(*without);
    EXPECT_EQ(tokens, ToyDecoder::output(*without));
    decoder_->close(*without);
    EXPECT_EQ(with->report.rounds, without->report.rounds);
    EXPECT_EQ(with->report.drafted, without->report.drafted);
    EXPECT_EQ(with->report.accepted, without->report.accepted);
    EXPECT_EQ(asked.computed, 0);
  }
  EXPECT_EQ(report_.late_samples, 0);
}

TEST_P(Constrained, RaggedNeighboursChangeNothing) {
  std::vector<std::vector<std::int32_t>> expected;
  for (unsigned which = 0; which < 3; ++which) expected.push_back(plain(which));
  for (const DrafterKind kind : kDrafters) {
    std::vector<Asked> asked(3);
    std::vector<std::unique_ptr<Slot>> slots;
    for (unsigned which = 0; which < 3; ++which) {
      slots.push_back(open(which, kind, 3 + static_cast<int>(which), asked[which]));
    }
    std::vector<Slot*> running = {slots[0].get(), slots[1].get(), slots[2].get()};
    for (int round = 0; !running.empty(); ++round) {
      decoder_->round(std::span(running).subspan(0, round % 3 == 0 ? 1 : running.size()));
      std::erase_if(running, [](const Slot* slot) { return slot->finish != Finish::kNone; });
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(ToyDecoder::output(*slots[i]), expected[i]) << "prompt " << i;
      EXPECT_EQ(asked[i].broken, "");
      decoder_->close(*slots[i]);
    }
  }
}

TEST_P(Constrained, ARowsMaskIsComputedOnce) {
  Asked asked;
  const auto slot = open(1, DrafterKind::kMtp, 4, asked);
  finish(*slot, asked);
  // Each round: one mask for every verified row, and one for the draft at which it was cut.
  EXPECT_LE(asked.computed, slot->report.drafted + 2 * slot->report.rounds);
  if (GetParam()) {
    EXPECT_GT(report_.late_samples, slot->report.rounds) << "masks of drafts and of the verified rows";
  } else {
    EXPECT_EQ(report_.late_samples, 0);
  }
}

TEST_P(Constrained, TheRatioRuleEmitsWhatIsAllowed) {
  Asked asked;
  const auto slot = open(1, DrafterKind::kMtp, 4, asked, Acceptance::kRejection);
  finish(*slot, asked);
  EXPECT_GT(slot->report.accepted, 0);
}

TEST_P(Constrained, ADraftBeforeARowWithoutAMaskIsNotCounted) {
  const std::vector<std::int32_t> expected = plain(1);
  for (const DrafterKind kind : kDrafters) {
    Asked asked;
    const std::unique_ptr<Slot> slot = decoder_.open(prompt(1), options(1, 4), kind);
    slot->constraint = std::make_unique<FakeConstraint>(asked, 1000, 2);
    EXPECT_EQ(finish(*slot, asked), expected);
    EXPECT_GT(slot->report.drafted_at[0], 0);
    EXPECT_EQ(slot->report.drafted_at[1], 0);
  }
}

TEST_P(Constrained, WithoutAMaskTheAnswerEndsWithTheReason) {
  Asked asked;
  for (const DrafterKind kind : {DrafterKind::kNone, DrafterKind::kMtp, DrafterKind::kLookup}) {
    const std::unique_ptr<Slot> slot = decoder_.open(prompt(1), options(1, -1), kind);
    slot->constraint = std::make_unique<FakeConstraint>(asked, 9);
    decoder_.finish(*slot);
    EXPECT_EQ(slot->finish, Finish::kError);
    EXPECT_EQ(slot->error.code, Code::kInvalid);
    EXPECT_EQ(slot->error.message, "the fake has ended");
    EXPECT_EQ(slot->output_tokens(), 9) << "every token that has a mask, and no more";
    decoder_->close(*slot);
  }
}

TEST(Proposing, ANeighbourThatDraftsNothingChangesNoDraft) {
  // Asked twice in a round, the head would see the pending pair twice and draft worse from then on.
  ToyDecoder decoder(2);
  const auto options_at = [](int depth) {
    SlotOptions out = options(1, depth);
    out.sampler.temperature = 3;  // the coupled noise makes head and target agree
    return out;
  };
  const auto lone = decoder.open(prompt(1), options_at(5), DrafterKind::kMtp);
  decoder.finish(*lone);
  decoder->close(*lone);
  ASSERT_GT(lone->report.accepted, 3);
  const auto idle = decoder.open(prompt(0), options_at(0), DrafterKind::kMtp);
  const auto drafting = decoder.open(prompt(1), options_at(5), DrafterKind::kMtp);
  Slot* both[] = {idle.get(), drafting.get()};
  while (drafting->finish == Finish::kNone) decoder->round(both);
  EXPECT_EQ(drafting->report.accepted, lone->report.accepted);
  EXPECT_EQ(drafting->report.rounds, lone->report.rounds);
  decoder->close(*idle);
  decoder->close(*drafting);
}

}  // namespace
}  // namespace ft::test::constraint_test
