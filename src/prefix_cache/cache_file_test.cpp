#include "prefix_cache/cache_file.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"

namespace ft::test::cache_file_test {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<std::int32_t>;

const std::string kIdentity = fingerprint("a model");
const std::vector<std::string> kShared = {fingerprint("rows"), fingerprint("more rows")};
constexpr std::int64_t kMuch = 64 << 20;
constexpr std::int64_t kNoHurry = std::int64_t{1} << 62;

Tokens counted(int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

class CacheFile : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = fs::temp_directory_path() / ("foretoken_" + name + std::to_string(getpid()));
  }
  void TearDown() override { fs::remove(path_); }

  Result<std::int64_t> write(const Tokens& tokens, std::size_t more, std::int64_t most = kMuch) {
    fs::remove(path_);
    CacheFileWriter writer(store_, path_.filename(), most, stop_);
    put_list<std::int32_t>(writer, tokens);
    writer.put(body(more));
    return writer.finish(CachePlace::of(tokens, static_cast<std::int64_t>(tokens.size()) - 10, true),
                         kIdentity, kShared);
  }

  static std::vector<std::byte> body(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256 + i / (1 << 20));
    return bytes;
  }

  /// Reads the whole file; the error says why it is not good.
  Error read(const Tokens& tokens, std::size_t more, std::int64_t deadline_ns = kNoHurry) const {
    Result<CacheFileReader> file = CacheFileReader::open(store_, path_.filename(), kIdentity);
    if (!file.ok()) return file.error();
    if (const Status begun = file->begin(deadline_ns); !begun.ok()) return begun.error();
    Tokens found;
    std::vector<std::byte> bytes(more);
    if (!get_list(*file, found) || !file->get(bytes)) return file->error();
    EXPECT_EQ(found, tokens);
    EXPECT_EQ(bytes, body(more));
    EXPECT_EQ(file->left(), 0);
    EXPECT_EQ(file->shared(), kShared);
    std::byte beyond{};
    EXPECT_FALSE(file->get({&beyond, 1}));
    return {Code::kInvalid, "good"};
  }

  std::string content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool leaves_nothing() const { return !fs::exists(path_) && !fs::exists(path_.string() + DiskStore::kPart); }
  void put_content(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  fs::path path_;
  mutable DiskStore store_{fs::temp_directory_path()};
  std::atomic<bool> stop_{false};
};

TEST_F(CacheFile, GivesBackWhatWasPutInWhateverThePieces) {
  constexpr std::size_t kPiece = 1 << 20;
  for (const std::size_t more : {std::size_t{0}, std::size_t{1}, kPiece - 8 - 400, kPiece, 3 * kPiece + 17}) {
    const Result<std::int64_t> bytes = write(counted(100), more);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_EQ(static_cast<std::uintmax_t>(*bytes), fs::file_size(path_)) << more;
    EXPECT_EQ(read(counted(100), more).message, "good") << more;
  }
}

TEST_F(CacheFile, APlaceKeepsAShortTailAndTheHashOfTheBlocksBefore) {
  for (const int high : {1, 31, 32, 33, 95, 96, 100, 4000}) {
    for (const std::int64_t low :
         {std::int64_t{1}, std::max<std::int64_t>(1, high - 17), std::int64_t{high}}) {
      const CachePlace place = CachePlace::of(counted(high), low, false);
      EXPECT_EQ(place.high, high);
      EXPECT_EQ(place.depth % kBlockRows, 0);
      EXPECT_GE(place.low, low);
      EXPECT_LE(place.low, high);
      EXPECT_LE(place.depth, place.low);
      EXPECT_EQ(static_cast<std::int64_t>(place.tail.size()), high - place.depth);
      EXPECT_LE(static_cast<std::int64_t>(place.tail.size()), CachePlace::kTailTokens);
      if (low >= high - 17) {
        EXPECT_EQ(place.low, low) << high;
      }
    }
  }
  Tokens other = counted(100);
  other[3] = 7;
  EXPECT_NE(CachePlace::of(counted(100), 90, true).before, CachePlace::of(other, 90, true).before);
  EXPECT_EQ(CachePlace::of(counted(100), 90, true).before, CachePlace::of(counted(110), 90, true).before);
}

TEST_F(CacheFile, IsRefusedWhereverItIsCut) {
  ASSERT_TRUE(write(counted(70), 900).ok());
  const std::string whole = content();
  for (std::size_t length = 0; length < whole.size(); length += length < 400 ? 1 : 7) {
    put_content(whole.substr(0, length));
    EXPECT_EQ(read(counted(70), 900).code, Code::kCorrupt) << length;
  }
  put_content(whole + "x");
  EXPECT_EQ(read(counted(70), 900).code, Code::kCorrupt);
  put_content(whole);
  EXPECT_EQ(read(counted(70), 900).message, "good");
}

TEST_F(CacheFile, IsRefusedWhicheverBitIsFlipped) {
  ASSERT_TRUE(write(counted(70), 900).ok());
  const std::string whole = content();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ (1 << (at % 8)));
    put_content(altered);
    const Error error = read(counted(70), 900);
    // Another version: nothing else in such a file is trusted.
    EXPECT_TRUE(error.code == Code::kCorrupt || (error.code == Code::kUnsupported && at >= 16 && at < 20))
        << at;
    EXPECT_NE(error.message, "good");
  }
}

TEST_F(CacheFile, PiecesThatChangedPlacesAreNoticed) {
  constexpr std::size_t kPiece = 1 << 20;
  ASSERT_TRUE(write(counted(70), 3 * kPiece).ok());
  std::string bytes = content();
  constexpr std::size_t kHead = 376;
  const std::string second = bytes.substr(kHead + kPiece, kPiece),
                    third = bytes.substr(kHead + 2 * kPiece, kPiece);
  bytes.replace(kHead + kPiece, kPiece, third).replace(kHead + 2 * kPiece, kPiece, second);
  const std::size_t sums = bytes.size() - 5 * 8;
  const std::string sum = bytes.substr(sums + 8, 8);
  bytes.replace(sums + 8, 8, bytes.substr(sums + 16, 8)).replace(sums + 16, 8, sum);
  put_content(bytes);
  EXPECT_EQ(read(counted(70), 3 * kPiece).message, "its checksums are damaged");
}

TEST_F(CacheFile, OfAnotherModelIsToldFromADamagedOne) {
  ASSERT_TRUE(write(counted(70), 900).ok());
  const Result<CacheFileReader> file =
      CacheFileReader::open(store_, path_.filename(), fingerprint("another model"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kUnsupported);
  EXPECT_EQ(CacheFileReader::open(store_, path_.filename().string() + ".not", kIdentity).error().code,
            Code::kNotFound);
}

TEST_F(CacheFile, ALinkAPipeOrAFolderIsNotRead) {
  ASSERT_TRUE(write(counted(70), 900).ok());
  const std::string name = path_.filename().string() + ".link", link = path_.string() + ".link";
  fs::create_symlink(path_, link);
  EXPECT_FALSE(CacheFileReader::open(store_, name, kIdentity).ok());
  fs::remove(link);
  ASSERT_EQ(mkfifo(link.c_str(), 0600), 0);
  EXPECT_EQ(CacheFileReader::open(store_, name, kIdentity).error().code, Code::kCorrupt)
      << "and does not wait";
  fs::remove(link);
  EXPECT_FALSE(CacheFileReader::open(store_, ".", kIdentity).ok());
}

TEST_F(CacheFile, BehindTheDeadlineNothingIsRead) {
  ASSERT_TRUE(write(counted(70), 900).ok());
  EXPECT_EQ(read(counted(70), 900, steady_ns() - 1).code, Code::kBusy);
}

TEST_F(CacheFile, WhatDoesNotFitOrIsNotWantedLeavesNothing) {
  const Result<std::int64_t> size = write(counted(70), 900);
  ASSERT_TRUE(size.ok());
  EXPECT_TRUE(write(counted(70), 900, *size).ok());
  EXPECT_EQ(write(counted(70), 900, *size - 1).error().code, Code::kExhausted);
  EXPECT_TRUE(leaves_nothing());
  stop_ = true;
  EXPECT_EQ(write(counted(70), 900).error().code, Code::kCancelled);
  EXPECT_TRUE(leaves_nothing());
}

// A file size limit replaces a full disk: the same call fails, with EFBIG instead of ENOSPC.
TEST_F(CacheFile, AFullDiskIsAnErrorAndLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Result<std::int64_t> size = write(counted(70), 9000);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(size.ok());
  EXPECT_EQ(size.error().code, Code::kExhausted);
  EXPECT_TRUE(leaves_nothing());
}

TEST_F(CacheFile, InMemoryItIsTheSame) {
  MemoryStore store;
  for (const std::size_t more : {std::size_t{0}, std::size_t{1} << 20, (std::size_t{3} << 20) + 17}) {
    CacheFileWriter writer(store, "one", kMuch, stop_);
    put_list<std::int32_t>(writer, counted(100));
    writer.put(body(more));
    const Result<std::int64_t> bytes = writer.finish(CachePlace::of(counted(100), 90, true), kIdentity);
    ASSERT_TRUE(bytes.ok());
    Result<CacheFileReader> file = CacheFileReader::open(store, "one", kIdentity);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->bytes(), *bytes);
    ASSERT_TRUE(file->begin(kNoHurry).ok());
    Tokens found;
    std::vector<std::byte> read(more);
    ASSERT_TRUE(get_list(*file, found) && file->get(read)) << file->error().message;
    EXPECT_EQ(found, counted(100));
    EXPECT_EQ(read, body(more));
    EXPECT_EQ(file->left(), 0);
  }
  store.remove("one");
  EXPECT_EQ(CacheFileReader::open(store, "one", kIdentity).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace ft::test::cache_file_test
