// Any drafter, any depth, any neighbours in the round: the tokens equal plain decoding's.
#include <random>
#include <tuple>

#include "tests/late_backend.h"
#include "tests/toy_decoder.h"

namespace ft::test::lossless_test {
namespace {

constexpr int kTokens = 26;
constexpr int kVocabulary = 101;

/// Three prompts of different lengths; the first two repeat themselves, so that lookup has something to find.
std::vector<std::int32_t> prompt(int which) {
  std::mt19937 random(static_cast<unsigned>(which) + 11);
  std::vector<std::int32_t> tokens;
  const int count[] = {37, 12, 5};
  for (int i = 0; i < count[which]; ++i) tokens.push_back(static_cast<std::int32_t>(random() % kVocabulary));
  if (which < 2) tokens.insert(tokens.end(), tokens.begin(), tokens.begin() + 8);
  return tokens;
}

SlotOptions options_of(const std::string& kind, int which) {
  SlotOptions options;
  options.max_tokens = kTokens + 3 * which;
  options.sampler.seed = 77 + static_cast<std::uint64_t>(which);
  SamplingParams& sampler = options.sampler;
  if (kind == "sampled") sampler.temperature = 1;
  if (kind == "cold") sampler.temperature = 0.3F;
  if (kind == "filtered")
    sampler.temperature = 0.8F, sampler.top_k = 20, sampler.top_p = 0.9F, sampler.min_p = 0.05F;
  if (kind == "penalties") {
    sampler.temperature = 0.6F, sampler.repetition = 1.3F, sampler.presence = 0.7F, sampler.frequency = 0.9F;
  }
  if (kind == "greedy_penalties") sampler.repetition = 1.2F, sampler.presence = 0.5F, sampler.frequency = 2;
  if (kind == "mask") {
    sampler.temperature = 0.7F;
    options.mask = {0xAAAAAAAAU, 0x0000FFFFU, 0xFFFF0000U, 0x15U};
  }
  if (kind == "bias") options.bias = {{3, 2.5F}, {40, -100.0F}, {77, 4.0F}};
  return options;
}

struct Cell {
  DrafterKind drafter;
  const char* name;
};
constexpr Cell kDrafters[] = {{DrafterKind::kMtp, "mtp"},
                              {DrafterKind::kLookup, "lookup"},
                              {DrafterKind::kAuto, "combined"},
                              {SyntheticDrafter::kKind, "synthetic"}};

/// By sampling rule and by backend: one that runs steps at once, one that runs them when it must
/// (late_backend.h).
class Lossless : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  const char* rule() const { return std::get<0>(GetParam()); }
  bool late() const { return std::get<1>(GetParam()); }
  std::unique_ptr<Backend> backend() {
    return late() ? make_late_backend(make_ref_backend(), report_) : make_ref_backend();
  }

  void SetUp() override {
    for (int i = 0; i < 3; ++i) {
      plain_.push_back(decoder_.answer(prompt(i), options_of(rule(), i)));
      ASSERT_EQ(static_cast<int>(plain_.back().size()), kTokens + 3 * i);
    }
    std::vector<std::int32_t> recorded = prompt(0);
    recorded.insert(recorded.end(), plain_[0].begin(), plain_[0].end());
    // Right for a while, then perturbed: real acceptance and real rejection at every depth.
    decoder_->force({0.95, 0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.7}, 5).record(recorded);
  }

  std::unique_ptr<Slot> start(int which, DrafterKind kind, int depth, int chunk) {
    SlotOptions options = options_of(rule(), which);
    options.depth = depth;
    return decoder_.open(prompt(which), options, kind, chunk);
  }

  void expect_plain(const Slot& slot, int which, const std::string& where) {
    ASSERT_EQ(slot.finish, Finish::kLength) << where << slot.error.message;
    EXPECT_EQ(ToyDecoder::output(slot), plain_[static_cast<std::size_t>(which)])
        << where << " prompt " << which;
    EXPECT_EQ(slot.report.emitted, slot.output_tokens()) << where;
    drafted_ += slot.report.drafted;
    accepted_ += slot.report.accepted;
  }

  /// Three slots of different depths that start and end in different rounds.
  void run_ragged(const Cell& cell, int depth) {
    const std::string where = std::string(cell.name) + " ragged depth " + std::to_string(depth);
    std::vector<std::unique_ptr<Slot>> slots(3);
    for (int round = 0; round < 200; ++round) {
      if (round == 0) slots[0] = start(0, cell.drafter, depth, 7);
      if (round == 2) slots[1] = start(1, cell.drafter, (depth + 3) % (kMaxDraftTokens + 1), 3);
      if (round == 5) slots[2] = start(2, cell.drafter, (depth + 5) % (kMaxDraftTokens + 1), 1);
      std::vector<Slot*> running;
      for (auto& slot : slots) {
        if (slot && slot->finish == Finish::kNone) running.insert(running.begin(), slot.get());
      }
      if (running.empty() && round > 5) break;
      if (!running.empty()) decoder_->round(running);
    }
    for (int i = 0; i < 3; ++i) {
      expect_plain(*slots[static_cast<std::size_t>(i)], i, where);
      decoder_->close(*slots[static_cast<std::size_t>(i)]);
    }
  }

  LateReport report_;
  ToyDecoder decoder_{backend(), 3};
  std::vector<std::vector<std::int32_t>> plain_;
  std::int64_t drafted_ = 0, accepted_ = 0;
};

TEST_P(Lossless, AnyDrafterAndDepthAlone) {
  for (const Cell& cell : kDrafters) {
    for (int depth = -1; depth <= kMaxDraftTokens; ++depth) {
      const auto slot = start(0, cell.drafter, depth, depth % 2 == 0 ? 64 : 5);
      decoder_.finish(*slot);
      expect_plain(*slot, 0, std::string(cell.name) + " depth " + std::to_string(depth));
      decoder_->close(*slot);
    }
  }
  EXPECT_GT(accepted_, 0) << "nothing was accepted: the matrix proves nothing";
  EXPECT_GT(drafted_, accepted_) << "nothing was rejected: the matrix proves nothing";
}

TEST_P(Lossless, AnyDrafterAndDepthAmongRaggedNeighbours) {
  for (const Cell& cell : kDrafters) {
    for (const int depth : {0, 1, 3, 6, 8}) run_ragged(cell, depth);
  }
  EXPECT_GT(accepted_, 0);
  EXPECT_GT(drafted_, accepted_);
}

TEST_P(Lossless, DifferentDraftersShareARound) {
  const DrafterKind kinds[] = {DrafterKind::kMtp, DrafterKind::kNone, DrafterKind::kLookup};
  std::vector<std::unique_ptr<Slot>> slots;
  for (int i = 0; i < 3; ++i) slots.push_back(start(i, kinds[i], 4, 64));
  std::vector<Slot*> running = {slots[0].get(), slots[1].get(), slots[2].get()};
  while (!running.empty()) {
    decoder_->round(running);
    std::erase_if(running, [](const Slot* slot) { return slot->finish != Finish::kNone; });
  }
  for (int i = 0; i < 3; ++i) expect_plain(*slots[static_cast<std::size_t>(i)], i, "mixed drafters");
  if (late()) {
    EXPECT_GT(report_.most_waiting, 4) << "a round's passes and its verification are one batch";
  }
}

/// A decoder that is made for them: the pending token and 15 drafts fill the tape.
TEST(LargeBlocks, DraftsUpToTheTapesRowsGiveThePlainTokens) {
  ToyDecoder decoder(make_ref_backend(), 2, {}, 256, 0, kMaxDraftTokens);
  std::int64_t deepest = 0, rejected = 0;
  for (const char* kind : {"greedy", "sampled", "penalties"}) {
    const std::vector<std::int32_t> plain = decoder.answer(prompt(0), options_of(kind, 0));
    std::vector<std::int32_t> recorded = prompt(0);
    recorded.insert(recorded.end(), plain.begin(), plain.end());
    for (const double chance : {1.0, 0.9}) {
      decoder->force(std::vector<double>(kMaxDraftTokens, chance), 3).record(recorded);
      for (const DrafterKind drafter : {DrafterKind::kMtp, DrafterKind::kAuto, SyntheticDrafter::kKind}) {
        SlotOptions options = options_of(kind, 0);
        options.depth = kMaxDraftTokens;
        const auto slot = decoder.open(prompt(0), options, drafter);
        decoder.finish(*slot);
        EXPECT_EQ(ToyDecoder::output(*slot), plain) << kind << " " << drafter.name() << " " << chance;
        deepest += slot->report.accepted_at[kMaxDraftTokens - 1];
        rejected += slot->report.drafted - slot->report.accepted;
        decoder->close(*slot);
      }
    }
  }
  EXPECT_GT(deepest, 0) << "no block was accepted whole";
  EXPECT_GT(rejected, 0);
}

/// The ids that have columns change from round to round and with the neighbours; the answers do not.
class ReducedHead : public testing::TestWithParam<bool> {};

TEST_P(ReducedHead, GivesThePlainTokensWhateverItLearnsOnTheWay) {
  LateReport report;
  ToyDecoder decoder(GetParam() ? make_late_backend(make_ref_backend(), report) : make_ref_backend(), 3,
                     ToyOptions{.drafts = 20, .extra = 6});
  std::int64_t accepted = 0, rejected = 0;
  for (const char* kind : {"greedy", "sampled", "filtered", "penalties", "mask", "bias"}) {
    std::vector<std::vector<std::int32_t>> plain;
    for (int i = 0; i < 3; ++i) plain.push_back(decoder.answer(prompt(i), options_of(kind, i)));
    for (const int depth : {1, 4, kMaxDraftTokens}) {
      std::vector<std::unique_ptr<Slot>> slots;
      for (int i = 0; i < 3; ++i) {
        SlotOptions options = options_of(kind, i);
        options.depth = depth;
        slots.push_back(decoder.open(prompt(i), options, DrafterKind::kMtp));
      }
      for (;;) {
        std::vector<Slot*> running;
        for (auto& slot : slots) {
          if (slot->finish == Finish::kNone) running.push_back(slot.get());
        }
        if (running.empty()) break;
        decoder->round(running);
      }
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(ToyDecoder::output(*slots[i]), plain[i]) << kind << " depth " << depth << " prompt " << i;
        accepted += slots[i]->report.accepted;
        rejected += slots[i]->report.drafted - slots[i]->report.accepted;
        decoder->close(*slots[i]);
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(rejected, 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, Lossless,
                         testing::Combine(testing::Values("greedy", "sampled", "cold", "filtered",
                                                          "penalties", "greedy_penalties", "mask", "bias"),
                                          testing::Bool()),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) +
                                  (std::get<1>(param.param) ? "_late" : "");
                         });

/// Accepted drafts of an answer alone, from the start.
SpeculationReport cold_report(ToyDecoder& decoder, const std::vector<std::int32_t>& tokens,
                              const SlotOptions& options, DrafterKind kind) {
  const auto slot = decoder.open(tokens, options, kind);
  decoder.finish(*slot);
  decoder->close(*slot);
  return slot->report;
}

/// Prompts that share any part of the first one, answered from a snapshot of it: at its prompt's end, at its
/// answer's end, in the middle of its prompt.
class LosslessSnapshot : public testing::TestWithParam<bool> {};

TEST_P(LosslessSnapshot, AnAnswerFromASnapshotIsTheColdOneAndDraftsAsWell) {
  LateReport late;
  ToyDecoder decoder(GetParam() ? make_late_backend(make_ref_backend(), late) : make_ref_backend(), 2, {},
                     256, 1 << 20);
  ASSERT_GT(decoder->room().snapshots, 2);
  const int blocks = decoder->pool().free_blocks();
  const int slots = decoder->pool().free_slots();
  std::int64_t accepted = 0;
  for (const char* rule : {"sampled", "penalties"}) {
    for (const DrafterKind kind :
         {DrafterKind::kNone, DrafterKind::kMtp, DrafterKind::kLookup, DrafterKind::kAuto}) {
      SlotOptions options = options_of(rule, 0);
      options.depth = kind == DrafterKind::kNone ? 0 : 4;
      const auto first = decoder.open(prompt(0), options, kind, 17);
      std::vector<Snapshot> snapshots;
      snapshots.push_back(std::move(*decoder->snapshot(*first)));
      EXPECT_GT(snapshots[0].high(), snapshots[0].low()) << "the last rows of a prompt are open";
      decoder.finish(*first);
      snapshots.push_back(std::move(*decoder->snapshot(*first)));
      const std::vector<std::int32_t> whole = first->tokens;
      decoder->close(*first);
      for (const Snapshot& snapshot : snapshots) {
        for (std::int64_t length = snapshot.low(); length <= snapshot.high(); ++length) {
          std::vector<std::int32_t> next(whole.begin(), whole.begin() + length);
          for (int i = 0; i < 1 + length % 3; ++i) next.push_back(static_cast<std::int32_t>(7 * i + 1));
          const std::vector<std::int32_t> cold = decoder.answer(next, options_of(rule, 0));
          auto slot = std::move(*decoder->open(next, options, kind, {&snapshot, length}));
          while (!slot->prefilled()) ASSERT_TRUE(decoder->prefill(*slot, 5).ok());
          decoder.finish(*slot);
          EXPECT_EQ(ToyDecoder::output(*slot), cold) << rule << " from " << length;
          const SpeculationReport report = cold_report(decoder, next, options, kind);
          EXPECT_EQ(slot->report.drafted_at, report.drafted_at) << rule << " from " << length;
          EXPECT_EQ(slot->report.accepted_at, report.accepted_at) << rule << " from " << length;
          accepted += report.accepted;
          decoder->close(*slot);
        }
      }
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_EQ(decoder->pool().free_blocks(), blocks) << "nothing is left";
  EXPECT_EQ(decoder->pool().free_slots(), slots);
}

TEST(LosslessFork, AForkOfAPromptAnswersLikeItsOwnPrefill) {
  ToyDecoder decoder(2);
  const SlotOptions options = options_of("sampled", 0);
  SlotOptions other = options;
  other.sampler.seed = 1234, other.depth = 4;
  const auto first = decoder.answer(prompt(0), options);
  const auto second = decoder.answer(prompt(0), other);
  ASSERT_NE(first, second);
  for (const DrafterKind kind :
       {DrafterKind::kNone, DrafterKind::kMtp, DrafterKind::kLookup, DrafterKind::kAuto}) {
    const auto slot = decoder.open(prompt(0), options, kind);
    auto fork = decoder->fork(*slot, other, kind);  // both slots are in use now: no third is needed
    ASSERT_TRUE(fork.ok()) << fork.error().message;
    EXPECT_TRUE((*fork)->prefilled());
    decoder.finish(**fork);
    decoder.finish(*slot);
    EXPECT_EQ(ToyDecoder::output(*slot), first);
    EXPECT_EQ(ToyDecoder::output(**fork), second);
    const std::int64_t accepted = (*fork)->report.accepted;
    decoder->close(*slot);
    decoder->close(**fork);
    EXPECT_EQ(accepted, cold_report(decoder, prompt(0), other, kind).accepted);
  }
}

std::string when(const testing::TestParamInfo<bool>& param) { return param.param ? "Late" : "AtOnce"; }
INSTANTIATE_TEST_SUITE_P(Steps, ReducedHead, testing::Bool(), when);
INSTANTIATE_TEST_SUITE_P(Steps, LosslessSnapshot, testing::Bool(), when);

}  // namespace
}  // namespace ft::test::lossless_test
