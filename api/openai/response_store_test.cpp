#include "api/openai/response_store.h"

#include <gtest/gtest.h>

namespace ft::api {
namespace {

TEST(ResponseStore, GivesBackWhatWasPutUntilItIsErased) {
  ResponseStore store;
  store.put("resp_1", {"{}", "[1]"});
  ASSERT_TRUE(store.get("resp_1"));
  EXPECT_EQ(store.get("resp_1")->history, "[1]");
  EXPECT_TRUE(store.erase("resp_1"));
  EXPECT_FALSE(store.erase("resp_1"));
  EXPECT_FALSE(store.get("resp_1"));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, OneBeyondTheCountDropsTheLeastRecentlyUsed) {
  ResponseStore store(2, 1'000);
  store.put("a", {"1", ""});
  store.put("b", {"2", ""});
  ASSERT_TRUE(store.get("a"));
  store.put("c", {"3", ""});
  EXPECT_EQ(store.size(), 2U);
  EXPECT_TRUE(store.get("a"));
  EXPECT_FALSE(store.get("b"));
  EXPECT_TRUE(store.get("c"));
}

TEST(ResponseStore, OneByteBeyondTheLimitDropsTheOldest) {
  ResponseStore store(100, 10);
  store.put("a", {"12345", ""});
  store.put("b", {"123", "45"});
  EXPECT_EQ(store.size(), 2U);
  EXPECT_EQ(store.bytes(), 10U);
  store.put("c", {"1", ""});
  EXPECT_FALSE(store.get("a"));
  EXPECT_TRUE(store.get("b"));
  store.put("d", {"12345678901", ""});  // exceeds the limit by itself
  EXPECT_FALSE(store.get("d"));
  EXPECT_TRUE(store.get("b"));
}

TEST(ResponseStore, PuttingAnIdAgainReplacesIt) {
  ResponseStore store;
  store.put("a", {"old", ""});
  store.put("a", {"newer", ""});
  EXPECT_EQ(store.size(), 1U);
  EXPECT_EQ(store.get("a")->body, "newer");
  EXPECT_EQ(store.bytes(), 5U);
}

}  // namespace
}  // namespace ft::api
