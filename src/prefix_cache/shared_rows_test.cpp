// Rows that snapshots of a tier share: each group is stored once, in any order, and never mistaken for
// another group. With a small random model on the reference backend.
#include "prefix_cache/shared_rows.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

#include "base/checksum.h"
#include "prefix_cache/prefix_cache.h"
#include "tests/toy_decoder.h"

namespace ft::test::shared_rows_test {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kBytes = 256 << 20, kContext = 4096, kRows = Timeline::kSharedRows;

/// Tokens of a conversation: the same seed gives the same beginning for every length.
Tokens talk(std::int64_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(random() % 99));
  return tokens;
}

/// One start of a program with a tier. Without a directory it is in memory.
struct Life {
  explicit Life(const CacheTierOptions& options, bool folders = false)
      : decoder(1, toy(folders), kContext, kBytes) {
    tier = std::move(*CacheTier::open(options));
    const Status started = tier->start(decoder->snapshots());
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message);
    forget();
  }
  static ToyOptions toy(bool folders) {
    ToyOptions options;
    options.folders = folders;
    return options;
  }
  /// Empties the snapshots above the tier.
  void forget() { cache = std::make_unique<PrefixCache>(decoder->room(), kBytes, std::vector{tier.get()}); }
  void store(const Tokens& tokens, DrafterKind kind = DrafterKind::kMtp) {
    cache->store(tokens, kind != DrafterKind::kNone, [&] {
      Tokens prompt = tokens;
      prompt.push_back(1);  // the pending token
      const auto slot = decoder.open(prompt, {}, kind);
      Result<Snapshot> snapshot = decoder->snapshot(*slot);
      decoder->close(*slot);
      return snapshot;
    });
    tier->flush();
  }
  std::int64_t found(Tokens prompt) {
    prompt.push_back(1);
    return cache->find(prompt, true).hit.length;
  }

  ToyDecoder decoder;
  std::unique_ptr<CacheTier> tier;
  std::unique_ptr<PrefixCache> cache;
};

class SharedRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = fs::temp_directory_path() / ("foretoken_" + name + std::to_string(getpid()));
    fs::remove_all(path_);
    options_.directory = path_;
    options_.limit_bytes = kBytes;
  }
  void TearDown() override { fs::remove_all(path_); }

  std::vector<fs::path> files(std::string_view ending) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().string().ends_with(ending)) found.push_back(entry.path());
    }
    return found;
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const std::string_view ending : {".ftcache", ".ftrows", ".part"}) {
      for (const fs::path& file : files(ending)) sum += static_cast<std::int64_t>(fs::file_size(file));
    }
    return sum;
  }

  fs::path path_;
  CacheTierOptions options_;
};

TEST_F(SharedRowsTest, ATurnThatIsAddedWritesItsOwnRowsOnly) {
  Life life(options_);
  life.store(talk(3 * kRows + 100));
  const std::int64_t first = life.tier->report().bytes;
  life.store(talk(3 * kRows + 200));
  const std::int64_t tail = life.tier->report().bytes - first;
  EXPECT_LT(tail, first / 3) << "no rows of the first three groups";
  life.store(talk(4 * kRows + 100));
  EXPECT_LT(life.tier->report().bytes - first - tail, 2 * first / 3);
  EXPECT_EQ(life.tier->report().bytes, bytes());
  EXPECT_EQ(files(".ftrows").size(), 8U) << "four groups of the model, four of its head";
}

TEST_F(SharedRowsTest, AfterARestartEachIsTheColdOneBitForBit) {
  SlotOptions slot_options;
  slot_options.max_tokens = 30, slot_options.depth = 4;
  slot_options.sampler.temperature = 0.9F, slot_options.sampler.seed = 5;
  struct Case {
    bool folders;
    DrafterKind kind;
  };
  for (const auto& [folders, kind] :
       {Case{false, DrafterKind::kMtp}, Case{true, DrafterKind::kDflash}, Case{true, DrafterKind::kModel}}) {
    {
      Life life(options_, folders);
      for (const std::int64_t length : {kRows - 1, kRows + 40, 2 * kRows + 70})
        life.store(talk(length), kind);
    }
    for (const std::int64_t length : {kRows - 1, kRows + 40, 2 * kRows + 70}) {
      Life next(options_, folders);
      EXPECT_EQ(next.tier->report().files, 3);
      Tokens prompt = talk(length);
      prompt.insert(prompt.end(), {7, 8, 9});
      const Tokens cold = ToyDecoder(1, Life::toy(folders), kContext).answer(prompt, slot_options, kind);
      const PrefixCache::Found found = next.cache->find(prompt, true);
      ASSERT_EQ(found.hit.length, length);
      auto slot = std::move(*next.decoder->open(prompt, slot_options, kind, found.hit));
      while (!slot->prefilled()) ASSERT_TRUE(next.decoder->prefill(*slot, 7).ok());
      next.decoder.finish(*slot);
      EXPECT_EQ(ToyDecoder::output(*slot), cold);
      next.decoder->close(*slot);
    }
    fs::remove_all(path_);
  }
}

TEST_F(SharedRowsTest, WhatNobodyNeedsIsRemoved) {
  Life life(options_);
  life.store(talk(kRows + 50));
  life.store(talk(2 * kRows + 50));
  life.store(talk(kRows + 60, 2));
  EXPECT_EQ(files(".ftrows").size(), 6U);
  life.cache->clear();
  for (int polls = 0; polls < 1000 && bytes() > 0; ++polls)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(bytes(), 0);
  EXPECT_EQ(life.tier->report().bytes, 0);
}

TEST_F(SharedRowsTest, AStartRemovesRowsWithoutASnapshotAndSnapshotsWithoutTheirRows) {
  {
    Life life(options_);
    life.store(talk(kRows + 50));
    life.store(talk(kRows + 60, 2));
  }
  ASSERT_EQ(files(".ftcache").size(), 2U);
  fs::remove(files(".ftcache").at(0));
  {
    Life life(options_);
    EXPECT_EQ(life.tier->report().files, 1);
    EXPECT_EQ(files(".ftrows").size(), 2U);
    EXPECT_EQ(life.tier->report().bytes, bytes());
  }
  fs::remove(files(".ftrows").at(0));
  Life life(options_);
  EXPECT_EQ(life.tier->report().files, 0);
  EXPECT_EQ(life.tier->report().dropped, 1);
  EXPECT_EQ(bytes(), 0);
}

TEST_F(SharedRowsTest, DamagedRowsTakeAllThatNeedThemAndNothingElse) {
  {
    Life life(options_);
    life.store(talk(kRows + 50));
    life.store(talk(2 * kRows + 50));
    life.store(talk(kRows + 60, 2));
  }
  // Only the longer one has the second group; the other conversation has none of these.
  for (const bool first : {false, true}) {
    Life life(options_);
    const auto match = life.tier->find(talk(2 * kRows + 60), true, first ? 0 : kRows + 100, 0);
    ASSERT_TRUE(match);
    RowGroups groups(match->tokens);
    RowGroup group = *groups.next("target", kRows);
    if (!first) group = *groups.next("target", 2 * kRows);
    const fs::path file = path_ / group.file();
    std::fstream damaged(file, std::ios::binary | std::ios::in | std::ios::out);
    ASSERT_TRUE(damaged.is_open()) << file;
    damaged.seekp(static_cast<std::streamoff>(fs::file_size(file) - 3000));
    damaged.put('\x55').put('\x33');
    damaged.close();
    EXPECT_EQ(life.found(talk(2 * kRows + 60)), first ? 0 : kRows + 50);
    EXPECT_EQ(life.found(talk(kRows + 60, 2)), kRows + 60);
  }
}

TEST_F(SharedRowsTest, RowsOfOtherTokensUnderTheSameNameAreNotTaken) {
  {
    Life life(options_);
    life.store(talk(kRows + 50));
    life.store(talk(kRows + 50, 2));
  }
  const Tokens one = talk(kRows), two = talk(kRows, 2);
  const RowGroup of_one = *RowGroups(one).next("target", kRows),
                 of_two = *RowGroups(two).next("target", kRows);
  fs::copy_file(path_ / of_two.file(), path_ / of_one.file(), fs::copy_options::overwrite_existing);
  {
    Life life(options_);
    EXPECT_EQ(life.found(talk(kRows + 50)), 0);
    EXPECT_EQ(life.found(talk(kRows + 50, 2)), kRows + 50);
  }
  // A writer does not mistake them for its own either.
  fs::copy_file(path_ / of_two.file(), path_ / of_one.file(), fs::copy_options::overwrite_existing);
  Life next(options_);
  next.store(talk(kRows + 70));
  next.forget();
  EXPECT_EQ(next.found(talk(kRows + 70)), kRows + 70)
      << "a start removed the stranger, and its own were written";
}

TEST_F(SharedRowsTest, InMemoryTheyServeWhatTheSnapshotsHaveLost) {
  options_.directory.clear();
  Life life(options_);
  SlotOptions slot_options;
  slot_options.max_tokens = 30, slot_options.depth = 3;
  life.store(talk(2 * kRows + 10));
  life.store(talk(3 * kRows + 10));
  life.forget();
  Tokens prompt = talk(3 * kRows + 20);
  const PrefixCache::Found found = life.cache->find(prompt, true);
  ASSERT_EQ(found.hit.length, 3 * kRows + 10);
  auto slot = std::move(*life.decoder->open(prompt, slot_options, DrafterKind::kMtp, found.hit));
  while (!slot->prefilled()) ASSERT_TRUE(life.decoder->prefill(*slot, 64).ok());
  life.decoder.finish(*slot);
  EXPECT_EQ(ToyDecoder::output(*slot), ToyDecoder(1, {}, kContext).answer(prompt, slot_options));
  life.decoder->close(*slot);
  EXPECT_EQ(life.tier->report().hits, 1);
  life.cache->clear();
  EXPECT_EQ(life.tier->report().bytes, 0);
}

/// Room for a snapshot may be made by removing the one whose rows it needs next.
TEST_F(SharedRowsTest, RowsThatAreWrittenAgainBeforeTheSweepStay) {
  MemoryStore store;
  SharedRows rows(store);
  const std::string identity = fingerprint("a model");
  const std::vector<std::string> names = {fingerprint("rows")};
  const std::string name = RowGroup{names[0], {}, {}}.file();
  const std::atomic<bool> stop = false;
  const auto write = [&] {
    CacheFileWriter file(store, name, 1 << 20, stop);
    put_list<std::int32_t>(file, std::vector<std::int32_t>{1, 2});
    CachePlace place;
    place.low = place.high = 1;
    const Result<std::int64_t> bytes = file.finish(place, identity);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    rows.add(names[0], *bytes);
  };
  write();
  rows.release(names);
  write();
  rows.sweep();
  EXPECT_TRUE(CacheFileReader::open(store, name, identity).ok());
  rows.release(names);
  rows.sweep();
  EXPECT_FALSE(CacheFileReader::open(store, name, identity).ok());
  EXPECT_EQ(rows.bytes(), 0);
}

TEST_F(SharedRowsTest, RandomStoresClearsEvictionsAndRestartsKeepTheBooks) {
  for (const bool disk : {true, false}) {
    if (!disk) options_.directory.clear();
    std::mt19937 random(11);
    auto life = std::make_unique<Life>(options_);
    life->store(talk(4 * kRows));
    options_.limit_bytes = 2 * life->tier->report().bytes;  // a few conversations
    life->cache->clear();
    life->tier->flush();
    life = nullptr, life = std::make_unique<Life>(options_);
    for (int step = 0; step < 25; ++step) {
      const auto action = random() % 20;
      const Tokens tokens = talk(64 + static_cast<std::int64_t>(random() % (3 * kRows)), 1 + random() % 4);
      if (action == 0) life->cache->clear();
      if (action == 1 && disk) life = nullptr, life = std::make_unique<Life>(options_);
      if (action == 2) life->forget();
      if (action < 12) life->store(tokens);
      const std::int64_t length = life->found(tokens);
      EXPECT_LE(length, std::ssize(tokens));
      if (action >= 3 && action < 12) {
        EXPECT_EQ(length, std::ssize(tokens));
      }
      life->tier->flush();
      EXPECT_LE(life->tier->report().bytes, options_.limit_bytes) << step;
    }
    life->tier->flush();
    if (disk) {
      life = nullptr, life = std::make_unique<Life>(options_);
      EXPECT_EQ(life->tier->report().bytes, bytes());
      EXPECT_EQ(life->tier->report().dropped, 0);
    }
    life->cache->clear();
    life->tier->flush();
    EXPECT_EQ(life->tier->report().bytes, 0);
  }
}

}  // namespace
}  // namespace ft::test::shared_rows_test
