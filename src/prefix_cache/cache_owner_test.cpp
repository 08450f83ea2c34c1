// A caller sees, uses and clears the snapshots of its key only.
#include "prefix_cache/cache_owner.h"

#include "prefix_cache/prefix_cache.h"
#include "tests/toy_decoder.h"

namespace ft::test::cache_owner_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kBytes = 8 << 20, kStep = 32;
constexpr CacheUser kMine{1, false, kStep}, kOther{2, false, kStep}, kOperator{3, true, kStep};

Tokens counted(int count, int first = 0) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((first + i) % 101);
  return tokens;
}

/// Differs from counted() after `count` tokens, by `tail` other tokens.
Tokens parting(int count, int other = 100, int tail = 1) {
  Tokens tokens = counted(count);
  tokens.insert(tokens.end(), static_cast<std::size_t>(tail), other);
  return tokens;
}

class Owners : public testing::Test {
 protected:
  /// As a request does: the prompt's snapshots on the way, then its end.
  bool store(PrefixCache& cache, const Tokens& tokens, const CacheUser& user) {
    return cache.store(
        tokens, true,
        [&]() -> Result<Snapshot> {
          Tokens prompt = tokens;
          prompt.push_back(1);  // the pending token
          const auto slot = decoder_.open(prompt, {}, DrafterKind::kMtp);
          Snapshot snapshot = std::move(*decoder_->snapshot(*slot));
          decoder_->close(*slot);
          return snapshot;
        },
        PrefixCache::Place::kPrompt, user);
  }
  static std::pair<std::int64_t, std::int64_t> found(PrefixCache& cache, const Tokens& prompt,
                                                     const CacheUser& user) {
    const PrefixCache::Found result = cache.find(prompt, true, 0, false, user);
    return {result.hit.length, result.shown};
  }
  using Lengths = std::pair<std::int64_t, std::int64_t>;

  /// A request: it looks up, keeps snapshots on the way and at the end, and is told of a length.
  std::int64_t ask(PrefixCache& cache, const Tokens& prompt, CacheUser user) {
    const PrefixCache::Found found = cache.find(prompt, true, 0, false, user);
    const auto size = std::ssize(prompt);
    for (std::int64_t at = found.hit.length + 1; at <= size; ++at) {
      const bool mine = at == found.own || at == size || (user.first_step > 0 && at % user.first_step == 0);
      if (!mine && at != found.shared) continue;
      user.owns = mine;
      store(cache, {prompt.begin(), prompt.begin() + at}, user);
    }
    return found.shown;
  }

  ToyDecoder decoder_{1, {}, 256, kBytes};
};

TEST_F(Owners, AHitOfAnotherKeyIsFastAndCountsAsComputed) {
  PrefixCache cache(decoder_->room(), kBytes);
  EXPECT_TRUE(store(cache, counted(70), kMine));
  EXPECT_EQ(found(cache, counted(90), kMine), Lengths(70, 70));
  EXPECT_EQ(found(cache, counted(90), kOther), Lengths(70, 0));
  EXPECT_EQ(found(cache, counted(90), kOperator), Lengths(70, 70));
  EXPECT_TRUE(store(cache, counted(70), kOther)) << "as if it were new: the owner is told that it was kept";
  EXPECT_FALSE(store(cache, counted(70), kOther));
  EXPECT_FALSE(store(cache, counted(70), kOperator)) << "who sees everything sees that it was there";
  EXPECT_EQ(found(cache, counted(90), kOther), Lengths(70, 70));
}

TEST_F(Owners, OfAShorterOwnAndALongerOtherHitTheOwnOneIsShown) {
  PrefixCache cache(decoder_->room(), kBytes);
  store(cache, counted(40), kOther);
  store(cache, counted(70), kMine);
  EXPECT_EQ(found(cache, counted(90), kOther), Lengths(70, 40));
}

TEST_F(Owners, AKeyIsToldTheSameLaterWhetherAnotherWasThereBefore) {
  for (const bool another : {false, true}) {
    PrefixCache cache(decoder_->room(), kBytes);
    if (another) {
      ask(cache, counted(45), kOther);
      ask(cache, counted(110), kOther);
    }
    EXPECT_EQ(ask(cache, counted(110), kMine), 0);
    EXPECT_EQ(ask(cache, parting(45), kMine), kStep)
        << "its own snapshot on the way, not the end of the other's prompt";
    EXPECT_EQ(cache.ledger().report(1).snapshots, 5);
    EXPECT_EQ(cache.ledger().report(1).hits, 1);
  }
}

TEST_F(Owners, WhereAPromptPartsFromAnotherKeysTheSnapshotIsNobodys) {
  constexpr CacheUser kFirst{1, false, 0}, kSecond{2, false, 0};  // nothing is kept on the way
  const auto prompt = [](int other) { return parting(60, other, 100); };
  for (const bool another : {false, true}) {
    PrefixCache cache(decoder_->room(), kBytes);
    if (another) ask(cache, counted(200), kSecond);
    EXPECT_EQ(ask(cache, prompt(100), kFirst), 0);
    EXPECT_EQ(ask(cache, prompt(99), kFirst), 0) << "its first one that begins like an earlier one";
    EXPECT_EQ(ask(cache, prompt(98), kFirst), kBlockRows) << "where its own two diverged";
    EXPECT_EQ(found(cache, prompt(97), kSecond).second, 0) << "nothing from the first key";
    EXPECT_EQ(found(cache, prompt(96), kSecond).second, another ? kBlockRows : 0)
        << "would have left it itself";
    cache.clear(1);
    cache.clear(2);
    EXPECT_EQ(cache.report().snapshots, 0) << "also those without an owner";
  }
}

TEST_F(Owners, WithoutSharingAKeyHasACacheForItself) {
  PrefixCache cache(decoder_->room(), kBytes, {}, CacheShare::kNone);
  store(cache, counted(70), kMine);
  EXPECT_EQ(found(cache, counted(90), kOther), Lengths(0, 0));
  EXPECT_EQ(cache.find(counted(90), true, 0, false, kOther).shared, 0);
  EXPECT_EQ(found(cache, counted(90), kOperator), Lengths(0, 0)) << "an operator's prompts too";
  EXPECT_EQ(found(cache, counted(90), kMine), Lengths(70, 70));
  EXPECT_TRUE(store(cache, counted(70), kOther));
  EXPECT_EQ(cache.report().snapshots, 2);
  cache.clear();
  EXPECT_EQ(cache.report().sessions, 0);
}

TEST_F(Owners, ClearingDropsWhatIsNobodyElses) {
  PrefixCache cache(decoder_->room(), kBytes);
  store(cache, counted(40, 1), kMine);
  store(cache, counted(40, 2), kOther);
  store(cache, counted(40, 3), kMine);
  store(cache, counted(40, 3), kOther);
  cache.clear(1);
  EXPECT_EQ(cache.report().snapshots, 2);
  EXPECT_EQ(found(cache, counted(50, 1), kMine), Lengths(0, 0));
  EXPECT_EQ(found(cache, counted(50, 2), kOther), Lengths(40, 40));
  EXPECT_EQ(found(cache, counted(50, 3), kOther), Lengths(40, 40));
  EXPECT_EQ(found(cache, counted(50, 3), kMine), Lengths(40, 0));
}

TEST_F(Owners, TheLedgerCountsForEachKeyAsIfItWereAlone) {
  PrefixCache cache(decoder_->room(), kBytes);
  store(cache, counted(40), kMine);
  store(cache, counted(40), kOther);
  found(cache, counted(50), kMine);
  found(cache, counted(50, 9), kOther);
  const CacheReport mine = cache.ledger().report(1), other = cache.ledger().report(2);
  EXPECT_EQ(std::tuple(mine.stored, mine.snapshots, mine.lookups, mine.hits, mine.tokens_saved),
            std::tuple(1, 1, 1, 1, 40));
  EXPECT_EQ(std::tuple(other.stored, other.snapshots, other.lookups, other.hits, other.tokens_saved),
            std::tuple(1, 1, 1, 0, 0));
  EXPECT_FALSE(mine.whole);
  cache.clear();
  EXPECT_EQ(cache.ledger().report(1).snapshots, 0);
  EXPECT_EQ(cache.ledger().report(2).evicted, 1);
  EXPECT_EQ(cache.ledger().report(9).lookups, 0) << "a key that asked nothing";
}

TEST(OwnerSet, BeyondItsLimitTheFirstOwnerGoes) {
  OwnerSet owners;
  for (std::uint64_t owner = 0; owner <= OwnerSet::kMax; ++owner) EXPECT_TRUE(owners.add(owner));
  EXPECT_FALSE(owners.add(7));
  EXPECT_FALSE(owners.has(0));
  EXPECT_EQ(owners.all().size(), OwnerSet::kMax);
  EXPECT_TRUE(owners.remove(7));
  EXPECT_FALSE(owners.remove(7));
}

}  // namespace
}  // namespace ft::test::cache_owner_test
