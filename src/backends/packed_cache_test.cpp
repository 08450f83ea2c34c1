// The packed-weight cache: the same bits with and without it. Each fault in a file is found, logged once and
// repaired by packing again.
#include "backends/packed_cache.h"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backends/registry.h"
#include "backends/test_programs.h"
#include "base/log.h"

namespace ft::packed_cache_test {
namespace {

namespace fs = std::filesystem;

class Prepared : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("prepared_" + std::to_string(::getpid()) + "_" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    set_log_level(LogLevel::kWarn);
  }
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all, ignored_);
    fs::remove_all(folder_, ignored_);
    set_log_level(LogLevel::kInfo);
  }

  BackendOptions options(int threads = 2) const {
    BackendOptions result;
    result.name = "cpu", result.threads = threads;
    result.packed_cache = {folder_.string(), "toy", "/models/toy", source_};
    return result;
  }

  /// The logits of a prompt; log lines go to log_.
  std::vector<float> logits(const BackendOptions& options, unsigned seed = 12, int columns = 0) {
    TestShape shape;
    if (columns > 0) shape.vocabulary = columns;
    const TestProgram test(shape, seed);
    testing::internal::CaptureStderr();
    std::vector<float> values = run(test, options);
    log_ = testing::internal::GetCapturedStderr();
    return values;
  }

  /// The logits with weights packed in memory.
  std::vector<float> expected_logits(unsigned seed = 12) {
    BackendOptions plain = options();
    plain.packed_cache = {};
    return logits(plain, seed);
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  fs::path file() const {
    const std::vector<fs::path> found = files();
    EXPECT_EQ(found.size(), 1U);
    return found.at(0);
  }
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void replace(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  long log_lines() const { return std::count(log_.begin(), log_.end(), '\n'); }

  /// A file in this state gives the same bits and one line in the log, and is good afterwards.
  void expect_repaired(const std::string& bytes, const std::string& good, const std::string& said) {
    replace(file(), bytes);
    EXPECT_EQ(logits(options()), expected_logits_);
    const std::string log = log_;
    EXPECT_NE(log.find(said), std::string::npos) << log;
    EXPECT_EQ(log_lines(), 1) << log;
    EXPECT_TRUE(content(file()) == good);
  }

  fs::path folder_;
  std::string source_ = std::string(32, 'a');
  std::string log_;
  std::vector<float> expected_logits_;

 private:
  static std::vector<float> run(const TestProgram& test, const BackendOptions& options) {
    auto backend = std::move(make_backend(options).value());
    auto executable = std::move(backend->compile(test.program, {.max_rows = 8, .max_logit_rows = 8}).value());
    auto state = std::move(backend->make_state(test.program.layout(), {.slots = 1, .blocks = 2}).value());
    const std::vector<std::int32_t> blocks = {0, 1}, tokens = {1, 2, 3, 4, 5}, rows = {0, 1, 2, 3, 4};
    const Segment segment{{blocks, 0, 0, 0}, 0, 5, 5};
    StepArgs args;
    args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = rows;
    const auto found = executable->run(args, *state).logits;
    return {found.begin(), found.end()};
  }

  std::error_code ignored_;
};

TEST_F(Prepared, GivesTheSameBitsForAnyNumberOfThreads) {
  expected_logits_ = expected_logits();
  EXPECT_EQ(logits(options()), expected_logits_);  // written
  EXPECT_EQ(log_, "");
  const std::string written = content(file());
  for (const int threads : {1, 2, 3}) {
    EXPECT_EQ(logits(options(threads)), expected_logits_) << threads;  // mapped
    EXPECT_EQ(log_, "");
  }
  EXPECT_TRUE(content(file()) == written);
  fs::remove(file());
  logits(options(3));
  EXPECT_TRUE(content(file()) == written);  // whichever thread count packed it
}

TEST_F(Prepared, IsReallyRead) {  // otherwise no other test here could fail
  expected_logits_ = expected_logits(13);
  logits(options(), 12);
  EXPECT_NE(logits(options(), 13), expected_logits_);  // other values under the same names
}

TEST_F(Prepared, AnyDamagedByteIsFound) {
  expected_logits_ = expected_logits();
  logits(options());
  const std::string good = content(file());
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 120; ++at) places.push_back(at);  // the header, and the checksums after it
  for (std::size_t at = 120; at < good.size(); at += 1 + good.size() / 40) places.push_back(at);
  places.insert(places.end(), {std::size_t{16383}, std::size_t{16384}, good.size() - 1});
  for (const std::size_t at : places) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    expect_repaired(bad, good, "packed again");
    ASSERT_FALSE(HasFailure()) << "byte " << at;
  }
}

TEST_F(Prepared, AShortOrLongFileIsPackedAgain) {
  expected_logits_ = expected_logits();
  logits(options());
  const std::string good = content(file());
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{103}, std::size_t{104}, std::size_t{112},
        std::size_t{16383}, std::size_t{16384}, good.size() - kReadAheadBytes, good.size() - 1}) {
    expect_repaired(good.substr(0, size), good, size < 104 ? "too short" : "bytes instead of");
    ASSERT_FALSE(HasFailure()) << "size " << size;
  }
  expect_repaired(good + "x", good, "bytes instead of");
}

TEST_F(Prepared, AnotherFileOrVersionIsReplaced) {
  expected_logits_ = expected_logits();
  logits(options());
  const std::string good = content(file());
  expect_repaired(std::string(5000, 'x'), good, "it is not a packed-weight cache");
  std::string old = good;
  ++old[16];
  expect_repaired(
      old, good,
      fmt::format("it has version {}, this program writes {}", kPackedFileVersion + 1, kPackedFileVersion));
  std::string other = good;
  other[70] ^= 1;
  expect_repaired(other, good, "it holds other weights");
}

TEST_F(Prepared, AChangedModelIsPackedAgain) {
  logits(options(), 12);
  source_ = std::string(32, 'b');
  expected_logits_ = expected_logits(13);
  EXPECT_EQ(logits(options(), 13), expected_logits_);
  EXPECT_NE(log_.find("the model has changed since it was written"), std::string::npos) << log_;
  EXPECT_EQ(logits(options(), 13), expected_logits_);
  EXPECT_EQ(log_, "");
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(Prepared, OtherLayoutsAndPlacesHaveFilesOfTheirOwn) {
  logits(options());
  logits(options(), 12, 77);
  EXPECT_EQ(files().size(), 2U);
  BackendOptions moved = options();
  moved.packed_cache.place = "/models/copy";
  logits(moved);
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(Prepared, AFolderThatCannotBeWrittenIsSaidAndNoFailure) {
  expected_logits_ = expected_logits();
  {
    std::ofstream(folder_) << "a file in place of the folder";
  }
  EXPECT_EQ(logits(options()), expected_logits_);
  EXPECT_NE(log_.find("the next start packs the weights again"), std::string::npos) << log_;
  fs::remove(folder_);
  fs::create_directories(folder_);
  if (::geteuid() == 0) return;  // root writes everywhere
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(logits(options()), expected_logits_);
  EXPECT_NE(log_.find("cannot create it"), std::string::npos) << log_;
}

TEST_F(Prepared, WhatAnotherUserWroteIsNotMapped) {
  if (::geteuid() != 0) return;  // only root can give a file away
  logits(options(), 12);
  expected_logits_ = expected_logits(13);
  ASSERT_EQ(::chown(file().c_str(), 12345, 12345), 0);
  EXPECT_EQ(logits(options(), 13), expected_logits_);
  EXPECT_NE(log_.find("it belongs to another user"), std::string::npos) << log_;
}

TEST_F(Prepared, AnUnreadableFileIsPackedAgain) {
  expected_logits_ = expected_logits();
  logits(options());
  const fs::path path = file();
  fs::remove(path);
  fs::create_directory(path);  // what even root cannot read as a file, nor rename a file to
  EXPECT_EQ(logits(options()), expected_logits_);
  EXPECT_EQ(log_lines(), 2) << log_;
  EXPECT_EQ(files().size(), 1U);  // no unfinished file remains
}

TEST_F(Prepared, AFullDiskIsSaidAndLeavesNothingBehind) {
  expected_logits_ = expected_logits();
  fs::create_directories(folder_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 3000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<float> found = logits(options());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(found, expected_logits_);
  EXPECT_NE(log_.find("File too large"), std::string::npos) << log_;
  EXPECT_TRUE(files().empty());
}

TEST_F(Prepared, OnlyOneProcessWrites) {
  expected_logits_ = expected_logits();
  logits(options());
  const fs::path path = file();
  const std::string good = content(path);
  fs::remove(path);
  const std::string part = path.string() + ".part";
  const int other = ::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_EQ(logits(options()), expected_logits_);
  EXPECT_NE(log_.find("another process is writing it"), std::string::npos) << log_;
  EXPECT_FALSE(fs::exists(path));
  ASSERT_EQ(::write(other, "torn", 4), 4);
  ::close(other);  // the other process died
  EXPECT_EQ(logits(options()), expected_logits_);
  EXPECT_EQ(log_, "");
  EXPECT_TRUE(content(path) == good);
  EXPECT_FALSE(fs::exists(part));
}

TEST_F(Prepared, PackingAndWritingAreToldToTheEnd) {
  std::vector<std::string> tasks;
  std::int64_t last = -1, all = 0;
  BackendOptions told = options();
  told.progress = [&](const char* task, std::int64_t done, std::int64_t total) {
    if (tasks.empty() || tasks.back() != task) {
      EXPECT_EQ(last, tasks.empty() ? -1 : all);  // the task before was reported to its end
      tasks.emplace_back(task), last = 0;
    }
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done, all = total;
  };
  logits(told);
  EXPECT_EQ(tasks, (std::vector<std::string>{"packing weights", "writing the packed-weight cache"}));
  EXPECT_EQ(last, all);
  EXPECT_GT(all, 0);
  tasks.clear(), last = -1;
  logits(told);
  EXPECT_TRUE(tasks.empty());  // mapping reports no progress
  told.progress = [](const char*, std::int64_t, std::int64_t) { throw std::runtime_error("no terminal"); };
  fs::remove_all(folder_);
  EXPECT_EQ(logits(told), expected_logits());
}

}  // namespace
}  // namespace ft::packed_cache_test
