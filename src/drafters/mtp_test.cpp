#include "drafters/mtp.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

#include "backends/ref/backend.h"
#include "tests/bytes_in_memory.h"
#include "tests/toy_model.h"

namespace ft::mtp_test {
namespace {

constexpr int kLength = 150;

/// A text with random hidden rows: the head does not depend on where they come from.
struct Text {
  std::vector<std::int32_t> tokens;
  std::vector<float> hidden;  // [tokens, width]

  Text(unsigned seed, int width) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int i = 0; i < kLength; ++i) tokens.push_back(static_cast<std::int32_t>(random() % 101));
    for (int i = 0; i < kLength * width; ++i) hidden.push_back(normal(random));
  }
};

/// The proposal of one slot.
struct Proposal {
  std::vector<std::int32_t> drafts;
  std::vector<std::vector<std::pair<std::int32_t, float>>> distributions;  // rejection sampling only
  bool operator==(const Proposal&) const = default;
};

struct Ask {
  int slot = 0;
  const Text* text = nullptr;
  int committed = 0;  // position of the pending token
  int depth = 0;
  const SamplingParams* sampler = nullptr;
  bool rejection = false;
};

class MtpDrafterTest : public testing::Test {
 protected:
  std::unique_ptr<MtpDrafter> make(int slots) { return make(toy_.head, slots); }
  std::unique_ptr<MtpDrafter> make(const Program& head, int slots) {
    auto captured = std::move(*CapturedRows::make(*backend_, MtpDrafter::request(width_), slots, kLength));
    MtpDrafter::Options options;
    options.slots = slots, options.blocks = slots * 8, options.hidden = width_, options.memories = 1;
    auto drafter = std::move(*MtpDrafter::make(*backend_, head, *captured, options));
    captured_[drafter.get()] = std::move(captured);
    return drafter;
  }

  void show(MtpDrafter& drafter, int slot, const Text& text, int from, int count, bool prompt = false) {
    const auto width = static_cast<std::size_t>(width_);
    const auto first = static_cast<std::size_t>(from);
    const auto rows = static_cast<std::size_t>(count);
    CapturedRows& captured = *captured_.at(&drafter);
    for (std::size_t row = first; row < first + rows; ++row) {
      captured.store().write(captured.place(slot, static_cast<std::int64_t>(row)),
                             std::span(text.hidden).subspan(row * width, width));
    }
    ASSERT_TRUE(drafter.observe(slot, std::span(text.tokens).subspan(first, rows), prompt).ok());
  }

  std::vector<Proposal> propose(MtpDrafter& drafter, const std::vector<Ask>& asks) {
    std::vector<std::int32_t> tokens(asks.size() * kMaxDraftTokens, -7);
    std::vector<std::array<Distribution, kMaxDraftTokens>> proposals(asks.size());
    std::vector<DraftSlot> slots(asks.size());
    std::vector<DraftSlot*> pointers;
    for (std::size_t i = 0; i < asks.size(); ++i) {
      const Ask& ask = asks[i];
      DraftSlot& slot = slots[i];
      slot.id = ask.slot;
      slot.tokens = std::span(ask.text->tokens).first(static_cast<std::size_t>(ask.committed) + 1);
      slot.sample.sampler = ask.sampler;
      slot.sample.position = ask.committed + 1;
      slot.rejection = ask.rejection;
      slot.depth = ask.depth;
      slot.store = static_cast<std::int32_t>(i) * kMaxDraftTokens;
      slot.drafts = std::span(tokens).subspan(static_cast<std::size_t>(slot.store), kMaxDraftTokens);
      slot.proposal = &proposals[i];
      EXPECT_EQ(drafter.plan(slot), ask.committed == 0 ? 0 : kMaxDraftTokens);
      pointers.push_back(&slot);
    }
    EXPECT_TRUE(drafter.propose(pointers, tokens).ok());
    drafter.collect();
    std::vector<Proposal> result(asks.size());
    for (std::size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(slots[i].drafted, asks[i].depth);
      for (int d = 0; d < slots[i].drafted; ++d) {
        result[i].drafts.push_back(slots[i].drafts[static_cast<std::size_t>(d)]);
        if (asks[i].rejection)
          result[i].distributions.push_back(proposals[i][static_cast<std::size_t>(d)].entries);
      }
    }
    return result;
  }

  /// A drafter that sees everything at once.
  Proposal fresh(Ask ask) {
    const auto drafter = make(1);
    EXPECT_TRUE(drafter->open(0, 0).ok());
    show(*drafter, 0, *ask.text, 0, ask.committed, true);
    ask.slot = 0;
    return propose(*drafter, {ask})[0];
  }

  std::unique_ptr<Backend> backend_ = make_ref_backend();
  test::ToyModel toy_;
  int width_ = toy_.options.hidden;
  std::map<const MtpDrafter*, std::unique_ptr<CapturedRows>> captured_;
};

TEST_F(MtpDrafterTest, HistoryIsThatOfARunFromScratchAfterAnyRounds) {
  SamplingParams sampler;
  sampler.temperature = 1;
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    const Text text(seed, width_);
    const auto drafter = make(1);
    ASSERT_TRUE(drafter->open(0, 0).ok());
    int committed = 0;
    while (committed < kLength - 40) {
      const int rows = committed == 0 || random() % 8 == 0 ? 1 + static_cast<int>(random() % 30)
                                                           : 1 + static_cast<int>(random() % 4);
      show(*drafter, 0, text, committed, rows);
      committed += rows;
      if (random() % 3 == 0) continue;  // a round without a draft, or the next chunk of the prompt
      const Ask ask{0, &text, committed, 1 + static_cast<int>(random() % kMaxDraftTokens), &sampler, true};
      const Proposal got = propose(*drafter, {ask})[0];
      if (random() % 3 != 0) continue;
      ASSERT_EQ(got, fresh(ask)) << "seed " << seed << " after " << committed << " tokens";
    }
    show(*drafter, 0, text, committed++, 1);
    const Ask last{0, &text, committed, kMaxDraftTokens, &sampler, true};
    ASSERT_EQ(propose(*drafter, {last})[0], fresh(last)) << "seed " << seed;
  }
}

/// Also from memories of sequences that themselves began from a memory.
TEST_F(MtpDrafterTest, ASequenceThatBeginsWithAMemoryDraftsAsIfItHadSeenAll) {
  SamplingParams sampler;
  sampler.temperature = 1;
  int shortened = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    const Text text(seed, width_);
    const auto drafter = make(2);
    ASSERT_TRUE(drafter->open(0, 0).ok());
    int committed = 1 + static_cast<int>(random() % 90);
    show(*drafter, 0, text, 0, committed);
    for (int slot = 0; committed < kLength - 10; slot = 1 - slot) {
      if (random() % 2 == 0) {
        propose(*drafter, {{slot, &text, committed, 2, &sampler, false}});
        if (random() % 2 == 0) show(*drafter, slot, text, committed++, 1);
      }
      std::unique_ptr<DraftMemory> memory = std::move(*drafter->save(slot));
      ASSERT_NE(memory, nullptr);
      drafter->close(slot);
      const int back = static_cast<int>(random() % static_cast<unsigned>(committed - memory->low() + 1));
      shortened += back > 0 ? 1 : 0;
      committed -= back;
      ASSERT_TRUE(drafter->restore(1 - slot, *memory, committed).ok());
      memory.reset();
      if (random() % 2 == 0) {
        const Ask ask{1 - slot, &text, committed, 1 + static_cast<int>(random() % kMaxDraftTokens),
                      &sampler, true};
        ASSERT_EQ(propose(*drafter, {ask})[0], fresh(ask)) << "seed " << seed << " after " << committed;
      }
      const int more = 1 + static_cast<int>(random() % 30);
      show(*drafter, 1 - slot, text, committed, std::min(more, kLength - committed));
      committed += std::min(more, kLength - committed);
    }
    drafter->close(0), drafter->close(1);
    EXPECT_EQ(drafter->pool()->free_blocks(), 16) << "nothing is left";
    EXPECT_EQ(drafter->pool()->free_slots(), 3);
  }
  EXPECT_GT(shortened, 10);
}

TEST_F(MtpDrafterTest, APromptIsSeenWholeWhateverItsChunksAndHoweverLongNobodyDrafts) {
  constexpr int kCommitted = kLength - 10;
  static_assert(kCommitted > MtpDrafter::kPendingRows);
  const Text text(9, width_);
  SamplingParams sampler;
  sampler.temperature = 1;
  for (const int chunk : {1, 7, 20, kCommitted}) {
    for (const int prompt : {kCommitted, 70}) {  // the rest: rounds of one token
      const auto drafter = make(1);
      ASSERT_TRUE(drafter->open(0, 0).ok());
      int done = 0;
      for (int rows = 0; done < prompt; done += rows) {
        rows = std::min(chunk, prompt - done);
        show(*drafter, 0, text, done, rows, true);
      }
      for (; done < kCommitted; ++done) show(*drafter, 0, text, done, 1);
      const Ask ask{0, &text, kCommitted, kMaxDraftTokens, &sampler, true};
      EXPECT_EQ(propose(*drafter, {ask})[0], fresh(ask)) << chunk << " of " << prompt;
    }
  }
}

/// A long stretch without drafts costs no passes, and the head then drafts as if the text began later.
TEST_F(MtpDrafterTest, AfterALongStretchWithoutDraftsTheHeadKnowsItsLastPairsAndNothingElseIsWrong) {
  constexpr int kBegin = MtpDrafter::kPassRows;
  constexpr int kCommitted = kLength - 14;
  static_assert(kCommitted > MtpDrafter::kPendingRows);
  const Text text(9, width_);
  Text end = text;
  end.tokens.erase(end.tokens.begin(), end.tokens.begin() + kBegin);
  end.hidden.erase(end.hidden.begin(), end.hidden.begin() + std::ptrdiff_t{kBegin} * width_);
  SamplingParams cold;
  cold.temperature = 0.01F;  // noise that decides nothing: it differs by position
  const Proposal expected = fresh({0, &end, kCommitted - kBegin, 6, &cold, true});
  const auto drafter = make(2);
  ASSERT_TRUE(drafter->open(0, 0).ok());
  for (int i = 0; i < kCommitted; ++i) show(*drafter, 0, text, i, 1);
  std::unique_ptr<DraftMemory> memory = std::move(*drafter->save(0));
  EXPECT_EQ(propose(*drafter, {{0, &text, kCommitted, 6, &cold, true}})[0], expected);
  ASSERT_TRUE(drafter->restore(1, *memory, kCommitted).ok());
  EXPECT_EQ(propose(*drafter, {{1, &text, kCommitted, 6, &cold, true}})[0], expected) << "from a memory";
  test::Written written;
  ASSERT_TRUE(memory->write_to(written));
  memory.reset();
  memory = std::move(*drafter->save(0));
  ASSERT_TRUE(drafter->restore(1, *memory, memory->low()).ok());
  const int low = static_cast<int>(memory->low());
  EXPECT_EQ(propose(*drafter, {{1, &text, low, 6, &cold, true}})[0],
            fresh({0, &end, low - kBegin, 6, &cold, true}))
      << "from its earliest row";
  show(*drafter, 1, text, low, 1);
  EXPECT_EQ(propose(*drafter, {{1, &text, low + 1, 6, &cold, true}})[0],
            fresh({0, &end, low + 1 - kBegin, 6, &cold, true}))
      << "and from its later rows";
  memory.reset();
  test::Given given(written.bytes);
  memory = std::move(*drafter->read_memory(given, kCommitted));
  ASSERT_TRUE(drafter->restore(1, *memory, kCommitted).ok());
  EXPECT_EQ(propose(*drafter, {{1, &text, kCommitted, 6, &cold, true}})[0], expected) << "from bytes";
}

TEST_F(MtpDrafterTest, ABatchOfSlotsProposesWhatEachWouldAlone) {
  SamplingParams sampled;
  sampled.temperature = 0.8F;
  sampled.seed = 4;
  const SamplingParams greedy;
  const Text texts[] = {Text(1, width_), Text(2, width_), Text(3, width_)};
  const auto drafter = make(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(drafter->open(i, 0).ok());
    show(*drafter, i, texts[i], 0, 40 + 17 * i);
  }
  std::vector<Ask> asks = {{2, &texts[2], 74, 2, &sampled, true},
                           {0, &texts[0], 40, kMaxDraftTokens, &greedy, false},
                           {1, &texts[1], 57, 5, &sampled, false}};
  for (int round = 0; round < 4; ++round) {
    const std::vector<Proposal> together = propose(*drafter, asks);
    for (std::size_t i = 0; i < asks.size(); ++i)
      EXPECT_EQ(together[i], fresh(asks[i])) << round << " slot " << i;
    for (Ask& ask : asks) {
      show(*drafter, ask.slot, *ask.text, ask.committed, 1 + ask.slot);
      ask.committed += 1 + ask.slot;
      ask.depth = 1 + (ask.depth + 3) % kMaxDraftTokens;
    }
  }
}

/// A head of the first 20 ids and the 6 others that were named last.
class ReducedMtpDrafterTest : public MtpDrafterTest {
 protected:
  ReducedMtpDrafterTest() {
    toy_ = test::ToyModel(test::ToyOptions{.drafts = 20, .extra = 6});
    sampler_.temperature = 1;
  }

  static std::set<std::int32_t> columns(std::vector<std::int32_t> named) {
    std::set<std::int32_t> found(named.begin(), named.end());
    for (std::int32_t id = 0; id < 20; ++id) found.insert(id);
    return found;
  }
  static std::set<std::int32_t> drafted(const Proposal& proposal) {
    std::set<std::int32_t> found;
    for (const auto& [token, probability] : proposal.distributions[0]) found.insert(token);
    return found;
  }

  test::ToyModel whole_;  // of the same weights
  SamplingParams sampler_;
};

TEST_F(ReducedMtpDrafterTest, DraftsTheFirstIdsAndTheLastOthersThatTheTextsHaveShown) {
  Text text(1, width_), other(2, width_);
  text.tokens = {5, 90, 91, 3, 92, 90, 93, 94, 7, 95, 96, 97, 98};
  other.tokens = {30, 4, 31, 30, 32};
  const auto drafter = make(2);
  ASSERT_TRUE(drafter->open(0, 0).ok() && drafter->open(1, 0).ok());
  show(*drafter, 0, text, 0, 1), show(*drafter, 1, other, 0, 1);
  EXPECT_EQ(drafted(propose(*drafter, {{0, &text, 1, 1, &sampler_, true}})[0]),
            columns({20, 21, 22, 23, 24, 90}));
  show(*drafter, 0, text, 1, 7);
  EXPECT_EQ(drafted(propose(*drafter, {{0, &text, 8, 1, &sampler_, true}})[0]),
            columns({20, 90, 91, 92, 93, 94}));
  show(*drafter, 0, text, 8, 1), show(*drafter, 1, other, 1, 3);
  for (const Proposal& proposal :
       propose(*drafter, {{0, &text, 9, 1, &sampler_, true}, {1, &other, 4, 1, &sampler_, true}})) {
    EXPECT_EQ(drafted(proposal), columns({93, 94, 95, 30, 31, 32})) << "words of both slots, not the oldest";
  }
  drafter->close(1);
  ASSERT_TRUE(drafter->open(1, 0).ok());
  show(*drafter, 1, text, 0, 5);
  EXPECT_EQ(drafted(propose(*drafter, {{1, &text, 5, 1, &sampler_, true}})[0]),
            columns({30, 31, 32, 90, 91, 92}))
      << "a slot that is opened again names its text from the beginning";
}

TEST_F(ReducedMtpDrafterTest, ReportsTheWholeHeadsDistributionOverWhatItMayDraft) {
  Text text(3, width_);
  text.tokens[10] = 77;
  const auto drafter = make(1);
  const auto whole = make(whole_.head, 1);
  const Ask ask{0, &text, 40, 1, &sampler_, true};
  Proposal got[2];
  for (MtpDrafter* each : {drafter.get(), whole.get()}) {
    ASSERT_TRUE(each->open(0, 0).ok());
    show(*each, 0, text, 0, 40);
    got[each == whole.get() ? 1 : 0] = propose(*each, {ask})[0];
  }
  const auto& part = got[0].distributions[0];
  double all = 0, sum = 0;
  for (const auto& [token, probability] : part) {
    sum += probability;
    all += Distribution{got[1].distributions[0]}.probability(token);
  }
  EXPECT_EQ(part.size(), 26U);
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_LT(all, 0.9) << "then the part is nearly the whole and this shows nothing";
  for (const auto& [token, probability] : part) {
    EXPECT_NEAR(probability, Distribution{got[1].distributions[0]}.probability(token) / all, 1e-5) << token;
  }
  const auto drawn = [&](std::int32_t token) { return Distribution{part}.probability(token) > 0; };
  EXPECT_TRUE(drawn(got[0].drafts[0]));
}

TEST_F(ReducedMtpDrafterTest, OfALongTextOnlyTheEndIsNamed) {
  constexpr auto kNamed = static_cast<int>(MtpDrafter::kMaxNamed);
  for (const bool beyond : {false, true}) {
    Text text(4, width_);
    text.tokens.assign(static_cast<std::size_t>(kNamed) + 1, 1);
    text.tokens[beyond ? 0 : 1] = 99;
    const auto drafter = make(1);
    ASSERT_TRUE(drafter->open(0, 0).ok());
    show(*drafter, 0, text, 0, 1);
    const Proposal proposal = propose(*drafter, {{0, &text, kNamed, 1, &sampler_, true}})[0];
    EXPECT_EQ(drafted(proposal), columns({20, 21, 22, 23, 24, beyond ? 25 : 99}));
  }
}

TEST_F(MtpDrafterTest, ADraftDependsOnTheTokensAndTheHiddenRows) {
  const Text text(5, width_);
  Text other_hidden = text;
  other_hidden.hidden[3] += 2;
  Text other_token = text;
  other_token.tokens[7] = (other_token.tokens[7] + 50) % 101;
  SamplingParams sampler;
  sampler.temperature = 1;
  const Proposal base = fresh({0, &text, 30, 4, &sampler, true});
  EXPECT_NE(base, fresh({0, &other_hidden, 30, 4, &sampler, true})) << "hidden rows of the past count";
  EXPECT_NE(base, fresh({0, &other_token, 30, 4, &sampler, true})) << "tokens of the past count";
}

TEST_F(MtpDrafterTest, ASlotForgetsWhenItIsOpenedAgain) {
  const SamplingParams greedy;
  const Text first(6, width_), second(7, width_);
  const auto drafter = make(1);
  ASSERT_TRUE(drafter->open(0, 0).ok());
  show(*drafter, 0, first, 0, 50);
  propose(*drafter, {{0, &first, 50, 3, &greedy, false}});
  drafter->close(0);
  ASSERT_TRUE(drafter->open(0, 0).ok());
  show(*drafter, 0, second, 0, 20);
  const Ask ask{0, &second, 20, 6, &greedy, false};
  EXPECT_EQ(propose(*drafter, {ask})[0], fresh(ask));
}

}  // namespace
}  // namespace ft::mtp_test
