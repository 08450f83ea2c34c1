#include "prefix_cache/prefix_cache.h"

#include <map>
#include <random>

#include "tests/toy_decoder.h"

namespace ft::test::prefix_cache_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kBytes = 8 << 20;

Tokens counted(int count, int first = 0) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((first + i) % 101);
  return tokens;
}

class Prefix : public testing::Test {
 protected:
  /// The decoder's room, limited to `snapshots`.
  static SnapshotRoom limited(SnapshotRoom room, int snapshots) {
    room.snapshots = std::min(room.snapshots, snapshots);
    return room;
  }

  Snapshot take(const Tokens& tokens, DrafterKind kind = DrafterKind::kMtp) {
    Tokens prompt = tokens;
    prompt.push_back(1);  // the pending token
    const auto slot = decoder_.open(prompt, {}, kind);
    Snapshot snapshot = std::move(*decoder_->snapshot(*slot));
    decoder_->close(*slot);
    return snapshot;
  }

  void store(PrefixCache& cache, const Tokens& tokens, DrafterKind kind = DrafterKind::kMtp) {
    cache.store(tokens, kind == DrafterKind::kMtp, [&] { return take(tokens, kind); });
  }

  static std::int64_t found(PrefixCache& cache, const Tokens& prompt, bool drafts = true) {
    return cache.find(prompt, drafts).hit.length;
  }

  ToyDecoder decoder_{1, {}, 256, kBytes};
  const int blocks_ = decoder_->pool().free_blocks(), slots_ = decoder_->pool().free_slots();
  const int draft_blocks_ = decoder_->draft_pool()->free_blocks();

  void expect_nothing_held() {
    EXPECT_EQ(decoder_->pool().free_blocks(), blocks_);
    EXPECT_EQ(decoder_->pool().free_slots(), slots_);
    EXPECT_EQ(decoder_->draft_pool()->free_blocks(), draft_blocks_);
  }
};

TEST_F(Prefix, AnyEndAmongTheLastRowsOfAStoredPromptIsFound) {
  PrefixCache cache(decoder_->room(), kBytes);
  store(cache, counted(70));
  for (int same = 70 - kMaxTapeRows; same <= 70; ++same) {
    Tokens prompt = counted(same);
    prompt.push_back(100);  // differs
    EXPECT_EQ(found(cache, prompt), same);
  }
  EXPECT_EQ(found(cache, counted(70)), 69) << "the last token is pending, never cached";
  Tokens early = counted(70 - kMaxTapeRows - 1);
  early.push_back(100);
  EXPECT_EQ(found(cache, early), 0) << "settled rows cannot be taken back";
  EXPECT_EQ(found(cache, counted(90)), 70);
  EXPECT_EQ(found(cache, counted(90, 1)), 0);
}

TEST_F(Prefix, ARequestThatDraftsIsNotGivenWhatKnowsNoDrafts) {
  PrefixCache cache(decoder_->room(), kBytes);
  store(cache, counted(50), DrafterKind::kNone);
  EXPECT_EQ(found(cache, counted(60), true), 0);
  EXPECT_EQ(found(cache, counted(60), false), 50);
  store(cache, counted(50));
  EXPECT_EQ(found(cache, counted(60), true), 50);
}

TEST_F(Prefix, TheSamePlaceIsStoredOnce) {
  PrefixCache cache(decoder_->room(), kBytes);
  store(cache, counted(50));
  store(cache, counted(50));
  EXPECT_EQ(cache.report().stored, 1);
  EXPECT_EQ(cache.report().snapshots, 1);
}

TEST_F(Prefix, WhereEarlierPromptsPartedIsToldInWholeBlocks) {
  PrefixCache cache(decoder_->room(), kBytes);
  store(cache, counted(100));
  Tokens other = counted(70);
  other.resize(100, 7);
  const PrefixCache::Found result = cache.find(other, true);
  EXPECT_EQ(result.hit.length, 0);
  EXPECT_EQ(result.shared, 2 * kBlockRows);
}

TEST_F(Prefix, TheLeastRecentlyUsedGoesFirst) {
  PrefixCache cache(limited(decoder_->room(), 2), kBytes);
  store(cache, counted(40, 1));
  store(cache, counted(40, 2));
  EXPECT_EQ(found(cache, counted(50, 1)), 40) << "used: the other one is older now";
  store(cache, counted(40, 3));
  EXPECT_EQ(found(cache, counted(50, 2)), 0);
  EXPECT_EQ(found(cache, counted(50, 1)), 40);
  EXPECT_EQ(found(cache, counted(50, 3)), 40);
  EXPECT_EQ(cache.report().evicted, 1);
}

TEST_F(Prefix, ALongPromptThinsItselfBeforeItTakesTheEndOfAnother) {
  using Place = PrefixCache::Place;
  PrefixCache cache(limited(decoder_->room(), 4), kBytes);
  store(cache, counted(40, 1));
  for (const int length : {64, 96, 128, 160, 192, 200}) {
    const Tokens tokens = counted(length);
    cache.store(tokens, true, [&] { return take(tokens); }, length == 200 ? Place::kPrompt : Place::kWithin);
  }
  EXPECT_EQ(found(cache, counted(50, 1)), 40);
  EXPECT_EQ(found(cache, counted(220)), 200);
  EXPECT_EQ(cache.report().snapshots, 4);
  for (int i = 2; i < 6; ++i) store(cache, counted(40, i));  // the ends of other conversations do
  EXPECT_EQ(found(cache, counted(220)), 0);
}

TEST_F(Prefix, WhatIsWithinAPromptNeverTakesTheEndOfALiveConversation) {
  PrefixCache cache(limited(decoder_->room(), 3), kBytes);
  for (int i = 1; i <= 3; ++i) store(cache, counted(40, i));
  const Tokens tokens = counted(64);
  EXPECT_FALSE(cache.store(tokens, true, [&] { return take(tokens); }, PrefixCache::Place::kWithin));
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(found(cache, counted(50, i)), 40);
  for (int i = 0; i < 40; ++i) found(cache, counted(50, 3));
  EXPECT_TRUE(cache.store(
      tokens, true, [&] { return take(tokens); }, PrefixCache::Place::kWithin))
      << "no request has used the others since";
}

TEST_F(Prefix, WherePromptsPartedStaysAndAnAnswerThatWasNotContinuedGoesFirst) {
  using Place = PrefixCache::Place;
  PrefixCache cache(limited(decoder_->room(), 4), kBytes);
  const auto keep = [&](const Tokens& tokens, Place place) {
    cache.store(tokens, true, [&] { return take(tokens); }, place);
  };
  Tokens answer = counted(128);
  answer.insert(answer.end(), 20, 99);
  keep(counted(64), Place::kParting);
  keep(counted(128), Place::kPrompt);
  keep(answer, Place::kAnswer);
  EXPECT_EQ(found(cache, counted(160)), 128) << "the answer was written in other words";
  keep(counted(160), Place::kPrompt);
  keep(counted(190), Place::kPrompt);
  EXPECT_EQ(found(cache, answer), 128) << "the end of the answer went";
  keep(counted(210), Place::kPrompt);
  Tokens edited = counted(70);
  edited.resize(100, 7);
  EXPECT_EQ(found(cache, edited), 64);
  EXPECT_EQ(found(cache, counted(230)), 210);
}

TEST_F(Prefix, BytesStayWithinTheBudgetAndNothingLeaks) {
  const SnapshotRoom& room = decoder_->room();
  const std::int64_t three =
      3 * (room.snapshot_bytes + 2 * (room.block_bytes + room.draft_block_bytes) + 1000);
  {
    PrefixCache cache(room, three);
    for (int i = 0; i < 12; ++i) {
      store(cache, counted(50, 5 * i));
      EXPECT_LE(cache.report().bytes, three);
      EXPECT_GE(cache.report().snapshots, std::min(i + 1, 3));
    }
    EXPECT_EQ(cache.report().snapshots, 3);
    cache.clear();
    EXPECT_EQ(cache.report().bytes, 0);
    EXPECT_EQ(cache.report().sessions, 0);
    expect_nothing_held();
    store(cache, counted(50));
  }
  expect_nothing_held();
}

TEST_F(Prefix, WhatCannotFitIsNotTaken) {
  PrefixCache cache(decoder_->room(), decoder_->room().snapshot_bytes);
  cache.store(counted(50), true, [&]() -> Result<Snapshot> {
    ADD_FAILURE() << "asked for";
    return take(counted(50));
  });
  PrefixCache none({}, 0);
  EXPECT_FALSE(none.enabled());
  EXPECT_EQ(found(none, counted(60)), 0);
}

/// Compares with a list that is searched from end to end: random trees of prompts give the same length.
TEST_F(Prefix, FindsWhatASearchThroughAllFinds) {
  struct Known {
    Tokens tokens;
    std::int64_t low;
  };
  std::mt19937 random(5);
  int hits = 0;
  for (int round = 0; round < 4; ++round) {
    PrefixCache cache(limited(decoder_->room(), 60), kBytes);
    std::vector<Known> known;
    std::vector<Tokens> prompts = {{}};
    for (int i = 0; i < 60; ++i) {
      Tokens prompt = prompts[random() % prompts.size()];
      prompt.resize(random() % (prompt.size() + 1));
      const std::size_t more = 1 + random() % 60;
      for (std::size_t j = 0; j < more && prompt.size() < 200; ++j)
        prompt.push_back(static_cast<std::int32_t>(random() % 2));
      std::int64_t wanted = 0;
      for (const Known& one : known) {
        std::int64_t same = 0;
        while (same < static_cast<std::int64_t>(std::min(one.tokens.size(), prompt.size() - 1)) &&
               one.tokens[static_cast<std::size_t>(same)] == prompt[static_cast<std::size_t>(same)])
          ++same;
        if (same >= std::max(one.low, PrefixCache::kMinTokens)) wanted = std::max(wanted, same);
      }
      ASSERT_EQ(found(cache, prompt), wanted) << "round " << round << " prompt " << i;
      hits += wanted > 0 ? 1 : 0;
      prompts.push_back(prompt);
      const auto stored = cache.report().stored;
      std::int64_t low = 0;
      cache.store(prompt, true, [&]() -> Result<Snapshot> {
        Snapshot snapshot = take(prompt);
        low = snapshot.low();
        return snapshot;
      });
      if (cache.report().stored > stored) known.push_back({prompt, low});
      ASSERT_EQ(cache.report().evicted, 0);
    }
  }
  EXPECT_GT(hits, 60);
  expect_nothing_held();
}

}  // namespace
}  // namespace ft::test::prefix_cache_test
