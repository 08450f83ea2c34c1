// The owners of the files in a cache's folder, with a small random model on the reference backend.
#include <filesystem>
#include <unistd.h>

#include "prefix_cache/prefix_cache.h"
#include "tests/toy_decoder.h"

namespace ft::test::cache_tier_owner_test {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<std::int32_t>;
using Lengths = std::pair<std::int64_t, std::int64_t>;

constexpr std::int64_t kBytes = 8 << 20;
constexpr CacheUser kMine{1, false, 0}, kOther{2, false, 0};

Tokens counted(int count, int first = 0) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((first + i) % 101);
  return tokens;
}

/// One start of a program with the folder.
struct Life {
  explicit Life(const std::string& directory, CacheShare share = CacheShare::kSpeed)
      : decoder(1, {}, 256, kBytes) {
    CacheTierOptions options;
    options.directory = directory;
    folder = std::move(*CacheTier::open(options));
    EXPECT_TRUE(folder->start(decoder->snapshots()).ok());
    cache = std::make_unique<PrefixCache>(decoder->room(), kBytes, std::vector{folder.get()}, share);
  }
  void store(const Tokens& tokens, const CacheUser& user) {
    cache->store(
        tokens, true,
        [&] {
          Tokens prompt = tokens;
          prompt.push_back(1);  // the pending token
          const auto slot = decoder.open(prompt, {}, DrafterKind::kMtp);
          Result<Snapshot> snapshot = decoder->snapshot(*slot);
          decoder->close(*slot);
          return snapshot;
        },
        PrefixCache::Place::kPrompt, user);
    folder->flush();
  }
  Lengths found(const Tokens& prompt, const CacheUser& user) {
    const PrefixCache::Found result = cache->find(prompt, true, 0, false, user);
    return {result.hit.length, result.shown};
  }
  std::int64_t files() const { return folder->report().files; }

  ToyDecoder decoder;
  std::unique_ptr<CacheTier> folder;
  std::unique_ptr<PrefixCache> cache;
};

class FolderOwner : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = fs::temp_directory_path() / ("foretoken_" + name + std::to_string(getpid()));
    fs::remove_all(path_);
  }
  void TearDown() override { fs::remove_all(path_); }

  fs::path path_;
};

TEST_F(FolderOwner, AFileIsItsOwnersAfterARestartToo) {
  Life(path_).store(counted(100), kMine);
  {
    Life next(path_);
    EXPECT_EQ(next.found(counted(120), kOther), Lengths(100, 0));
  }
  Life next(path_);
  EXPECT_EQ(next.found(counted(120), kMine), Lengths(100, 100));
}

TEST_F(FolderOwner, WithoutSharingNoFileOfAnotherIsRead) {
  Life(path_).store(counted(100), kMine);
  Life next(path_, CacheShare::kNone);
  EXPECT_EQ(next.found(counted(120), kOther), Lengths(0, 0));
  EXPECT_EQ(next.found(counted(120), kMine), Lengths(100, 100));
}

TEST_F(FolderOwner, ClearingRemovesTheFilesThatAreNobodyElses) {
  Life life(path_);
  life.store(counted(100, 1), kMine);
  life.store(counted(100, 2), kOther);
  life.store(counted(100, 3), kMine);
  life.store(counted(100, 3), kOther);
  EXPECT_EQ(life.files(), 3);
  life.cache->clear(1);
  EXPECT_EQ(life.files(), 2);
  EXPECT_EQ(life.found(counted(120, 1), kMine), Lengths(0, 0));
  EXPECT_EQ(life.found(counted(120, 3), kOther), Lengths(100, 100));
  life.cache->clear(2);
  EXPECT_EQ(life.files(), 0);
}

}  // namespace
}  // namespace ft::test::cache_tier_owner_test
