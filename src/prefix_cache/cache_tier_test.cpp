// The folder of a prefix cache, with a small random model on the reference backend.
#include "prefix_cache/cache_tier.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "prefix_cache/prefix_cache.h"
#include "tests/toy_decoder.h"

namespace ft::test::cache_tier_test {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kBytes = 8 << 20;

Tokens counted(int count, int first = 0) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((first + i) % 101);
  return tokens;
}

/// One start of a program with the folder: a decoder, the folder and the cache in memory.
struct Life {
  explicit Life(const CacheTierOptions& options, const ToyOptions& toy = {}) : decoder(1, toy, 256, kBytes) {
    Result<std::unique_ptr<CacheTier>> opened = CacheTier::open(options);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    folder = std::move(*opened);
    const Status started = folder->start(decoder->snapshots());
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message);
    cache = std::make_unique<PrefixCache>(decoder->room(), kBytes, std::vector{folder.get()});
  }

  void store(const Tokens& tokens, DrafterKind kind = DrafterKind::kMtp) {
    cache->store(tokens, kind == DrafterKind::kMtp, [&] {
      Tokens prompt = tokens;
      prompt.push_back(1);  // the pending token
      const auto slot = decoder.open(prompt, {}, kind);
      Result<Snapshot> snapshot = decoder->snapshot(*slot);
      decoder->close(*slot);
      return snapshot;
    });
    folder->flush();
  }
  std::int64_t found(const Tokens& prompt, bool drafts = true) {
    return cache->find(prompt, drafts).hit.length;
  }
  CacheReport report() const {
    CacheReport report = cache->report();
    report.disk = folder->report();
    return report;
  }

  ToyDecoder decoder;
  std::unique_ptr<CacheTier> folder;
  std::unique_ptr<PrefixCache> cache;
};

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = fs::temp_directory_path() / ("foretoken_" + name + std::to_string(getpid()));
    fs::remove_all(path_);
    options_.directory = path_;
    options_.limit_bytes = 64 << 20;
  }
  void TearDown() override { fs::remove_all(path_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().filename() != "foretoken.lock") found.push_back(entry.path());
    }
    return found;
  }

  fs::path path_;
  CacheTierOptions options_;
};

TEST_F(Folder, WhatWasStoredIsThereAfterARestart) {
  Life(options_).store(counted(100));
  Life next(options_);
  EXPECT_EQ(next.report().disk->files, 1);
  EXPECT_EQ(next.report().disk->bytes, static_cast<std::int64_t>(fs::file_size(files().at(0))));
  EXPECT_EQ(next.found(counted(120)), 100);
  EXPECT_EQ(next.report().disk->hits, 1);
  EXPECT_EQ(next.found(counted(120)), 100);
  EXPECT_EQ(next.report().disk->hits, 1) << "memory has it now";
  EXPECT_EQ(next.found(counted(100)), 99) << "the last token is pending";
  EXPECT_EQ(next.found(counted(120, 1)), 0);
}

TEST_F(Folder, AnyEndAmongTheLastRowsIsServedAsFromMemory) {
  Life(options_).store(counted(100));
  for (const int same : {100 - kMaxTapeRows, 95, 99}) {
    Life next(options_);
    Tokens prompt = counted(same);
    prompt.push_back(100);  // differs
    EXPECT_EQ(next.found(prompt), same);
  }
  Life next(options_);
  Tokens early = counted(100 - kMaxTapeRows - 1);
  early.push_back(100);
  EXPECT_EQ(next.found(early), 0) << "settled rows cannot be taken back";
}

TEST_F(Folder, AnAnswerFromAFileIsTheColdOneBitForBit) {
  const Tokens prompt = counted(130);
  SlotOptions slot_options;
  slot_options.max_tokens = 30, slot_options.depth = 4;
  slot_options.sampler.temperature = 0.9F, slot_options.sampler.seed = 5;
  for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kNone}) {
    Life(options_).store(counted(110), kind);
    const Tokens cold = ToyDecoder(1).answer(prompt, slot_options, kind);
    Life next(options_);
    const PrefixCache::Found found = next.cache->find(prompt, kind == DrafterKind::kMtp);
    ASSERT_EQ(found.hit.length, 110);
    auto slot = std::move(*next.decoder->open(prompt, slot_options, kind, found.hit));
    while (!slot->prefilled()) ASSERT_TRUE(next.decoder->prefill(*slot, 7).ok());
    next.decoder.finish(*slot);
    EXPECT_EQ(ToyDecoder::output(*slot), cold);
    EXPECT_EQ(slot->report.drafted > 0, kind == DrafterKind::kMtp);
    next.decoder->close(*slot);
    next.cache->clear();
  }
}

TEST_F(Folder, WhatKnowsNoDraftsServesOnlyThoseThatDoNotDraft) {
  Life(options_).store(counted(100), DrafterKind::kNone);
  {
    Life next(options_);
    EXPECT_EQ(next.found(counted(120), true), 0);
    EXPECT_EQ(next.found(counted(120), false), 100);
    next.store(counted(100), DrafterKind::kMtp);
    EXPECT_EQ(next.report().disk->files, 2);
  }
  Life last(options_);
  EXPECT_EQ(last.found(counted(120), true), 100);
  last.cache->clear();
  EXPECT_EQ(last.report().disk->files, 0);
}

TEST_F(Folder, ShortPromptsAreNotWrittenAndSmallGainsNotRead) {
  {
    Life first(options_);
    first.store(counted(CacheTier::kMinTokens - 1));
    EXPECT_EQ(first.report().disk->files, 0);
    first.store(counted(CacheTier::kMinTokens));
    EXPECT_EQ(first.report().disk->files, 1);
    first.store(counted(150));
  }
  Life next(options_);
  next.store(counted(150 - CacheTier::kMinTokens + 1));
  EXPECT_EQ(next.found(counted(160)), 150 - CacheTier::kMinTokens + 1);
  next.cache->find(counted(160), true);
  EXPECT_EQ(next.report().disk->hits, 0);
}

TEST_F(Folder, AFileThatCostsMoreThanItSavesIsNotRead) {
  Life(options_).store(counted(100));
  Life next(options_);
  EXPECT_EQ(next.cache->find(counted(120), true, 1e-9).hit.length, 0);
  EXPECT_EQ(next.cache->find(counted(120), true, 10).hit.length, 100);
}

TEST_F(Folder, ADamagedFileIsRemovedAndTheNextBestServes) {
  {
    Life first(options_);
    first.store(counted(100));
    first.store(counted(180));
  }
  fs::path longer = files().at(0);
  if (fs::file_size(files().at(1)) > fs::file_size(longer)) longer = files().at(1);
  std::fstream file(longer, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(fs::file_size(longer) / 2));
  file.put('\x55').put('\x33');
  file.close();
  Life next(options_);
  EXPECT_EQ(next.report().disk->files, 2) << "its head is good";
  EXPECT_EQ(next.found(counted(200)), 100);
  EXPECT_EQ(next.report().disk->dropped, 1);
  EXPECT_EQ(next.report().disk->files, 1);
  EXPECT_FALSE(fs::exists(longer));
}

TEST_F(Folder, ATornFileAndAHalfWrittenOneAreRemovedAtTheStartAndOthersLeftAlone) {
  {
    Life first(options_);
    first.store(counted(100));
    first.store(counted(150));
  }
  fs::resize_file(files().at(0), fs::file_size(files().at(0)) - 1);
  const std::string half = files().at(1).string() + ".part";
  std::ofstream(half) << "half";
  std::ofstream(path_ / "notes.txt") << "somebody's";
  std::ofstream(path_ / "notes.ftcache") << "somebody's";
  Life next(options_);
  EXPECT_EQ(next.report().disk->files, 1);
  EXPECT_EQ(next.report().disk->dropped, 1);
  EXPECT_FALSE(fs::exists(half));
  EXPECT_EQ(files().size(), 3U);
  next.cache->clear();
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(Folder, FilesOfAnotherModelOrSourceAreRemoved) {
  const auto stored = [&] {
    Life life(options_);
    const bool kept = life.report().disk->files == 1;
    life.store(counted(100));
    return kept;
  };
  EXPECT_FALSE(stored());
  EXPECT_TRUE(stored());
  options_.source = "other weights";
  EXPECT_FALSE(stored());
  EXPECT_TRUE(stored());
  ToyOptions other;
  other.hidden *= 2;
  Life life(options_, other);
  EXPECT_EQ(life.report().disk->files, 0);
  EXPECT_EQ(life.report().disk->dropped, 1);
}

TEST_F(Folder, TheLeastRecentlyUsedGoesFirstAlsoAfterARestart) {
  Life(options_).store(counted(100));
  const auto size = static_cast<std::int64_t>(fs::file_size(files().at(0)));
  fs::remove_all(path_);
  options_.limit_bytes = 3 * size + size / 2;
  {
    Life first(options_);
    for (int i = 0; i < 3; ++i) first.store(counted(100, i + 1));
    EXPECT_EQ(first.report().disk->files, 3);
  }
  // A file's time is its last use; this makes the order clear whatever the clock's resolution.
  const auto set_age = [&](int first_token, int hours) {
    Life life(options_);
    const auto match = life.folder->find(counted(120, first_token), true, 0, 0);
    ASSERT_TRUE(match.has_value());
    life.folder.reset();
    const auto then = fs::file_time_type::clock::now() - std::chrono::hours(hours);
    fs::last_write_time(path_ / match->name, then);
  };
  set_age(1, 2), set_age(2, 3), set_age(3, 1);
  {
    Life next(options_);
    EXPECT_EQ(next.found(counted(120, 2)), 100) << "used: another one is the oldest now";
  }
  Life last(options_);
  last.store(counted(100, 4));
  EXPECT_EQ(last.report().disk->files, 3);
  EXPECT_LE(last.report().disk->bytes, options_.limit_bytes);
  EXPECT_FALSE(last.folder->find(counted(120, 1), true, 0, 0));
  EXPECT_TRUE(last.folder->find(counted(120, 2), true, 0, 0));
  EXPECT_TRUE(last.folder->find(counted(120, 3), true, 0, 0));
  EXPECT_TRUE(last.folder->find(counted(120, 4), true, 0, 0));
}

TEST_F(Folder, ASmallerBudgetIsKeptFromTheStart) {
  {
    Life first(options_);
    for (int i = 0; i < 4; ++i) first.store(counted(100, i));
    options_.limit_bytes = first.report().disk->bytes / 2;
  }
  Life next(options_);
  EXPECT_EQ(next.report().disk->files, 2);
  options_.limit_bytes = 1000;
  next.store(counted(200));
  next.cache.reset(), next.folder.reset();
  Life small(options_);
  small.store(counted(200));
  EXPECT_EQ(small.report().disk->files, 0) << "it can never fit";
}

TEST_F(Folder, OneProcessAtATimeHasIt) {
  Life first(options_);
  const Result<std::unique_ptr<CacheTier>> second = CacheTier::open(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kBusy);
  EXPECT_NE(second.error().message.find(path_.string()), std::string::npos) << second.error().message;
  EXPECT_NE(second.error().message.find("--cache-dir"), std::string::npos) << second.error().message;
  first.cache.reset(), first.folder.reset();
  EXPECT_TRUE(CacheTier::open(options_).ok());
}

TEST_F(Folder, AFolderThatCannotBeUsedIsRefusedByName) {
  std::ofstream(path_) << "a file";
  options_.directory = path_;
  for (const std::string& directory :
       {path_.string(), path_.string() + "/below", std::string("/proc/foretoken")}) {
    options_.directory = directory;
    const Result<std::unique_ptr<CacheTier>> refused = CacheTier::open(options_);
    ASSERT_FALSE(refused.ok()) << directory;
    EXPECT_EQ(refused.error().code, Code::kIo);
    EXPECT_NE(refused.error().message.find(directory), std::string::npos) << refused.error().message;
  }
}

TEST_F(Folder, WithoutACacheInMemoryItIsRefused) {
  ToyDecoder decoder(1);
  const auto folder = std::move(*CacheTier::open(options_));
  const Status started = folder->start(decoder->snapshots());
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message.find("--cache-mb"), std::string::npos) << started.error().message;
}

TEST_F(Folder, WhatCannotBeWrittenDoesNoHarmAndIsTriedAgain) {
  options_.rest_ms = 0;
  Life life(options_);
  fs::remove_all(path_);  // removed while it is in use
  life.store(counted(100));
  EXPECT_EQ(life.report().disk->files, 0);
  EXPECT_EQ(life.found(counted(120)), 100) << "memory has it";
  fs::create_directory(path_);
  life.store(counted(100));
  EXPECT_EQ(life.report().disk->files, 1) << "offered again when it is met again";
  options_.rest_ms = 60'000;
}

TEST_F(Folder, AFailureIsFollowedByARest) {
  Life life(options_);
  fs::remove_all(path_);
  life.store(counted(100));
  fs::create_directory(path_);
  life.store(counted(100, 1));
  EXPECT_TRUE(files().empty());
}

/// A cache of at most two snapshots, and the room that its decoder has left.
struct Narrow {
  explicit Narrow(CacheTier& folder) : cache(room(*decoder), kBytes, {&folder}) {
    EXPECT_TRUE(folder.start(decoder->snapshots()).ok());
  }
  static SnapshotRoom room(Decoder& decoder) {
    SnapshotRoom room = decoder.room();
    room.snapshots = 2;
    return room;
  }
  void store(const Tokens& tokens) {
    Tokens prompt = tokens;
    prompt.push_back(1);  // the pending token
    const auto slot = decoder.open(prompt, {}, DrafterKind::kMtp);
    cache.store(tokens, true, [&] { return decoder->snapshot(*slot); });
    decoder->close(*slot);
    EXPECT_LE(cache.report().snapshots, 2);
    EXPECT_GE(decoder->pool().free_slots(), slots - 2) << "a file that is being written counts";
  }

  ToyDecoder decoder{1, {}, 256, kBytes};
  const int blocks = decoder->pool().free_blocks(), slots = decoder->pool().free_slots();
  const int draft_blocks = decoder->draft_pool()->free_blocks();
  PrefixCache cache;
};

TEST_F(Folder, WhatItWroteAndWhatWaitsIsGivenBack) {
  const auto folder = std::move(*CacheTier::open(options_));
  Narrow narrow(*folder);
  for (int i = 0; i < 60; ++i) {
    narrow.store(counted(80 + i, i));
    if (i % 20 == 19) narrow.cache.clear();
  }
  // The writer removes a file that it was renaming while the folder was cleared: a moment later.
  constexpr int kPolls = 1000;
  for (int i = 0; i < kPolls && !files().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(files().empty()) << "cleared";
  EXPECT_EQ(narrow.decoder->pool().free_blocks(), narrow.blocks);
  EXPECT_EQ(narrow.decoder->pool().free_slots(), narrow.slots);
  EXPECT_EQ(narrow.decoder->draft_pool()->free_blocks(), narrow.draft_blocks);
}

/// A pipe without a reader replaces the disk.
TEST_F(Folder, AStuckDiskHoldsUpNobodyAndWhatItReadsStaysInMemory) {
  const auto folder = std::move(*CacheTier::open(options_));
  Narrow narrow(*folder);
  narrow.store(counted(80));
  folder->flush();
  const std::string part = path_ / (folder->find(counted(90), true, 0, 0)->name + ".part");
  narrow.cache.clear();
  ASSERT_EQ(mkfifo(part.c_str(), 0600), 0);
  for (int i = 0; i < 20; ++i) narrow.store(counted(80, i));
  EXPECT_EQ(narrow.cache.find(counted(90), true).hit.length, 80);
  const int reader = open(part.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  folder->flush();
  close(reader);
  narrow.store(counted(80, 50));
  EXPECT_EQ(narrow.cache.find(counted(90, 50), true).hit.length, 80) << "there is room again";
  narrow.cache.clear();
  EXPECT_EQ(narrow.decoder->pool().free_slots(), narrow.slots);
}

}  // namespace
}  // namespace ft::test::cache_tier_test
