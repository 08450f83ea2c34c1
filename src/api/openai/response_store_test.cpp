#include "api/openai/response_store.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ft::api::response_store_test {
namespace {

constexpr Caller kMine{7, false}, kOther{8, false}, kOperator{9, true};

void keep(ResponseStore& store, const std::string& id, const StoredResponse& response, const Caller& caller) {
  const Status kept = store.put(id, response, caller);
  EXPECT_TRUE(kept.ok()) << kept.error().message;
}

TEST(ResponseStore, GivesBackWhatWasPutUntilItIsErased) {
  ResponseStore store;
  keep(store, "resp_1", {"{}", "[1]"}, kMine);
  ASSERT_TRUE(store.get("resp_1", kMine));
  EXPECT_EQ(store.get("resp_1", kMine)->history, "[1]");
  EXPECT_TRUE(store.erase("resp_1", kMine));
  EXPECT_FALSE(store.erase("resp_1", kMine));
  EXPECT_FALSE(store.get("resp_1", kMine));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, AnEntryIsThereForItsKeyAndForAnOperatorAlone) {
  ResponseStore store({2, 1'000});
  keep(store, "a", {"1", "[1]"}, kMine);
  EXPECT_FALSE(store.get("a", kOther));
  EXPECT_FALSE(store.get("a", {})) << "a caller without a key";
  EXPECT_EQ(store.history_bytes("a", kOther), 0U);
  EXPECT_FALSE(store.erase("a", kOther));
  EXPECT_TRUE(store.get("a", kMine));
  EXPECT_TRUE(store.get("a", kOperator));
  EXPECT_EQ(store.history_bytes("a", kOperator), 3U);
  EXPECT_TRUE(store.erase("a", kOperator));
}

TEST(ResponseStore, AnItemLeadsToItsResponse) {
  ResponseStore store({2, 1'000});
  keep(store, "a", {"body of a", "[]", "[]", 0, {"msg_1", "fc_1"}}, kMine);
  EXPECT_EQ(store.body_with_item("fc_1", kMine), "body of a");
  EXPECT_FALSE(store.body_with_item("fc_1", kOther));
  EXPECT_FALSE(store.body_with_item("fc_2", kMine));
  keep(store, "a", {"again", "[]", "[]", 0, {"msg_1"}}, kMine);
  EXPECT_EQ(store.body_with_item("msg_1", kMine), "again");
  EXPECT_TRUE(store.erase("a", kMine));
  EXPECT_FALSE(store.body_with_item("msg_1", kMine));
}

TEST(ResponseStore, OneBeyondTheCountDropsTheLeastRecentlyUsed) {
  ResponseStore store({2, 1'000});
  keep(store, "a", {"1", ""}, kMine);
  keep(store, "b", {"2", ""}, kMine);
  ASSERT_TRUE(store.get("a", kMine));
  keep(store, "c", {"3", ""}, kMine);
  EXPECT_EQ(store.size(), 2U);
  EXPECT_TRUE(store.get("a", kMine));
  EXPECT_FALSE(store.get("b", kMine));
  EXPECT_TRUE(store.get("c", kMine));
}

TEST(ResponseStore, OneByteBeyondTheLimitDropsTheOldest) {
  ResponseStore store({100, 10});
  keep(store, "a", {"12345", ""}, kMine);
  keep(store, "b", {"123", "45"}, kMine);
  EXPECT_EQ(store.size(), 2U);
  EXPECT_EQ(store.bytes(), 10U);
  keep(store, "c", {"1", ""}, kMine);
  EXPECT_FALSE(store.get("a", kMine));
  EXPECT_TRUE(store.get("b", kMine));
  keep(store, "d", {"12345678901", ""}, kMine);  // exceeds the limit by itself
  EXPECT_FALSE(store.get("d", kMine));
  EXPECT_TRUE(store.get("b", kMine));
}

TEST(ResponseStore, AKeyWithMoreCannotPushOutTheEntriesOfOneWithLess) {
  ResponseStore store({8, 1'000});
  keep(store, "mine", {std::string(100, 'm'), ""}, kMine);
  for (int i = 0; i < 50; ++i) {
    keep(store, "many" + std::to_string(i), {"1", ""}, kOther);
    keep(store, "large" + std::to_string(i), {std::string(400, 'x'), ""}, kOther);
    EXPECT_LE(store.bytes(), 1'000U);
    EXPECT_LE(store.size(), 8U);
  }
  EXPECT_TRUE(store.get("mine", kMine));
  EXPECT_TRUE(store.get("large49", kOther)) << "the newest of the key with the most entries stays";
}

TEST(ResponseStore, PuttingAnIdAgainReplacesIt) {
  ResponseStore store;
  keep(store, "a", {"old", ""}, kMine);
  keep(store, "a", {"newer", ""}, kMine);
  EXPECT_EQ(store.size(), 1U);
  EXPECT_EQ(store.get("a", kMine)->body, "newer");
  EXPECT_EQ(store.bytes(), 5U);
}

/// A folder for files of stores, removed at the end.
class ResponseFile : public ::testing::Test {
 protected:
  ResponseFile() {
    std::string name = ::testing::TempDir() + "responses-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/responses.sqlite";
  }
  ~ResponseFile() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<ResponseStore> open(ResponseStore::Limits limits = {},
                                      ResponseStore::Clock clock = nullptr) {
    auto store = ResponseStore::open(path_, limits, std::move(clock));
    EXPECT_TRUE(store.ok()) << store.error().message;
    return store.ok() ? std::move(*store) : nullptr;
  }

  std::string folder_, path_;
};

TEST_F(ResponseFile, EntriesAreThereAfterARestart) {
  const std::string binary("a\0b\xff", 4);
  keep(*open(), "resp_1", {"{}", binary, "[[2]]", 3}, kMine);
  const auto again = open();
  const auto found = again->get("resp_1", kMine);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->history, binary);
  EXPECT_EQ(found->deltas, "[[2]]");
  EXPECT_EQ(found->inputs, 3U);
  EXPECT_FALSE(again->get("resp_1", kOther)) << "it still belongs to its key";
  EXPECT_TRUE(again->erase("resp_1", kMine));
  EXPECT_FALSE(open()->get("resp_1", kMine));
}

TEST_F(ResponseFile, OnlyItsOwnerMayReadIt) {
  const auto store = open();
  keep(*store, "resp_1", {"{}", "[]"}, kMine);
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    struct stat facts = {};
    ASSERT_EQ(::stat(file.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777U, 0600U) << file.path();
  }
}

TEST_F(ResponseFile, AnEntryIsFoundUntilItIsTooOld) {
  std::int64_t now = 1'000;
  const auto store = open({.age_s = 100}, [&now] { return now; });
  keep(*store, "old", {"1", "[1]"}, kMine);
  now += 99;
  EXPECT_TRUE(store->get("old", kMine));
  now += 1;
  EXPECT_FALSE(store->get("old", kMine));
  EXPECT_EQ(store->history_bytes("old", kMine), 0U);
  EXPECT_FALSE(store->erase("old", kMine));
  keep(*store, "new", {"2", ""}, kMine);
  EXPECT_EQ(store->size(), 1U) << "the next entry removes what is too old";
}

TEST_F(ResponseFile, LimitsHoldForEntriesOfEarlierRuns) {
  {
    const auto store = open({.entries = 3});
    for (const char* id : {"a", "b", "c"}) keep(*store, id, {id, ""}, kMine);
    EXPECT_TRUE(store->get("a", kMine));
  }
  const auto store = open({.entries = 3});
  keep(*store, "d", {"d", ""}, kOther);
  EXPECT_EQ(store->size(), 3U);
  EXPECT_FALSE(store->get("b", kMine)) << "the least recently used";
  EXPECT_TRUE(store->get("a", kMine));
}

TEST_F(ResponseFile, AnotherFileIsRefusedAndKept) {
  std::ofstream(path_) << "not a database, and longer than the header of one: " << std::string(200, 'x');
  const auto store = ResponseStore::open(path_, {});
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("name another file, or delete it"), std::string::npos);
  EXPECT_GT(std::filesystem::file_size(path_), 200U);
  EXPECT_FALSE(ResponseStore::open(folder_ + "/absent/responses.sqlite", {}).ok());
}

TEST_F(ResponseFile, TheDatabaseOfAnotherProgramIsRefused) {
  {
    auto other = SqliteDatabase::open(path_);
    ASSERT_TRUE(other.ok());
    ASSERT_TRUE(other->run("CREATE TABLE notes(text)").ok());
  }
  const auto store = ResponseStore::open(path_, {});
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("another program"), std::string::npos) << store.error().message;
}

TEST_F(ResponseFile, AWriterThatDoesNotEndIsAnErrorAndNoWaitForEver) {
  const auto store = open();
  auto other = SqliteDatabase::open(path_);
  ASSERT_TRUE(other.ok() && other->run("BEGIN IMMEDIATE").ok());
  EXPECT_FALSE(store->put("a", {"1", ""}, kMine).ok());
  ASSERT_TRUE(other->run("COMMIT").ok());
  keep(*store, "a", {"1", ""}, kMine);
}

/// Puts entries until it is killed. Writes the number of each entry to `out` after put() has returned.
[[noreturn]] void put_for_ever(const std::string& path, int run, int out) {
  auto store = ResponseStore::open(path, {.bytes = std::size_t{1} << 30});
  if (!store.ok()) ::_exit(1);
  const std::string history(20'000, 'h');
  for (int i = 0;; ++i) {
    const std::string id = "r" + std::to_string(run) + "_" + std::to_string(i);
    if (!(*store)->put(id, {"{}", history}, kMine).ok()) ::_exit(1);
    if (::write(out, &i, sizeof i) != sizeof i) ::_exit(1);
  }
}

/// Starts such a process and kills it after `least` entries or more; returns how many were put.
int killed_after(const std::string& path, int run, int least) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    put_for_ever(path, run, ends[1]);
  }
  ::close(ends[1]);
  int last = -1, one = 0;
  while (::read(ends[0], &one, sizeof one) == sizeof one) {
    last = one;
    if (last == least) ::kill(child, SIGKILL);
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return last + 1;
}

TEST_F(ResponseFile, NoEntryIsLostByTwentyKills) {
  for (int run = 0; run < 20; ++run) {
    const int put = killed_after(path_, run, run % 7);
    ASSERT_GT(put, 0);
    const auto store = open({.bytes = std::size_t{1} << 30});
    for (int i = 0; i < put; ++i) {
      EXPECT_TRUE(store->get("r" + std::to_string(run) + "_" + std::to_string(i), kMine)) << run << " " << i;
    }
    EXPECT_TRUE(store->get("r0_0", kMine));
  }
}

TEST_F(ResponseFile, ProcessesShareIt) {
  constexpr int kProcesses = 4, kEach = 25;
  const auto store = open();
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    auto own = ResponseStore::open(path_, {});
    bool fine = own.ok();
    for (int i = 0; i < kEach && fine; ++i) {
      fine = (*own)->put(std::to_string(process * kEach + i), {"{}", std::string(5'000, 'x')}, kMine).ok();
    }
    ::_exit(fine ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(store->size(), std::size_t{kProcesses * kEach});
  EXPECT_TRUE(store->get("99", kMine)) << "an entry of another process";
}

}  // namespace
}  // namespace ft::api::response_store_test
