#include "api/openai/response_store.h"

#include <gtest/gtest.h>
#include <string>

namespace ft::api {
namespace {

constexpr Caller kMine{7, false}, kOther{8, false}, kOperator{9, true};

TEST(ResponseStore, GivesBackWhatWasPutUntilItIsErased) {
  ResponseStore store;
  store.put("resp_1", {"{}", "[1]"}, kMine);
  ASSERT_TRUE(store.get("resp_1", kMine));
  EXPECT_EQ(store.get("resp_1", kMine)->history, "[1]");
  EXPECT_TRUE(store.erase("resp_1", kMine));
  EXPECT_FALSE(store.erase("resp_1", kMine));
  EXPECT_FALSE(store.get("resp_1", kMine));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, AnEntryIsThereForItsKeyAndForAnOperatorAlone) {
  ResponseStore store(2, 1'000);
  store.put("a", {"1", "[1]"}, kMine);
  EXPECT_FALSE(store.get("a", kOther));
  EXPECT_FALSE(store.get("a", {})) << "a caller without a key";
  EXPECT_EQ(store.history_bytes("a", kOther), 0U);
  EXPECT_FALSE(store.erase("a", kOther));
  EXPECT_TRUE(store.get("a", kMine));
  EXPECT_TRUE(store.get("a", kOperator));
  EXPECT_EQ(store.history_bytes("a", kOperator), 3U);
  EXPECT_TRUE(store.erase("a", kOperator));
}

TEST(ResponseStore, OneBeyondTheCountDropsTheLeastRecentlyUsed) {
  ResponseStore store(2, 1'000);
  store.put("a", {"1", ""}, kMine);
  store.put("b", {"2", ""}, kMine);
  ASSERT_TRUE(store.get("a", kMine));
  store.put("c", {"3", ""}, kMine);
  EXPECT_EQ(store.size(), 2U);
  EXPECT_TRUE(store.get("a", kMine));
  EXPECT_FALSE(store.get("b", kMine));
  EXPECT_TRUE(store.get("c", kMine));
}

TEST(ResponseStore, OneByteBeyondTheLimitDropsTheOldest) {
  ResponseStore store(100, 10);
  store.put("a", {"12345", ""}, kMine);
  store.put("b", {"123", "45"}, kMine);
  EXPECT_EQ(store.size(), 2U);
  EXPECT_EQ(store.bytes(), 10U);
  store.put("c", {"1", ""}, kMine);
  EXPECT_FALSE(store.get("a", kMine));
  EXPECT_TRUE(store.get("b", kMine));
  store.put("d", {"12345678901", ""}, kMine);  // exceeds the limit by itself
  EXPECT_FALSE(store.get("d", kMine));
  EXPECT_TRUE(store.get("b", kMine));
}

TEST(ResponseStore, AKeyWithMoreCannotPushOutTheEntriesOfOneWithLess) {
  ResponseStore store(8, 1'000);
  store.put("mine", {std::string(100, 'm'), ""}, kMine);
  for (int i = 0; i < 50; ++i) {
    store.put("many" + std::to_string(i), {"1", ""}, kOther);
    store.put("large" + std::to_string(i), {std::string(400, 'x'), ""}, kOther);
    EXPECT_LE(store.bytes(), 1'000U);
    EXPECT_LE(store.size(), 8U);
  }
  EXPECT_TRUE(store.get("mine", kMine));
  EXPECT_TRUE(store.get("large49", kOther)) << "the newest of the key that has most stays";
}

TEST(ResponseStore, PuttingAnIdAgainReplacesIt) {
  ResponseStore store;
  store.put("a", {"old", ""}, kMine);
  store.put("a", {"newer", ""}, kMine);
  EXPECT_EQ(store.size(), 1U);
  EXPECT_EQ(store.get("a", kMine)->body, "newer");
  EXPECT_EQ(store.bytes(), 5U);
}

}  // namespace
}  // namespace ft::api
