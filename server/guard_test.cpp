#include "server/guard.h"

#include <gtest/gtest.h>

namespace ft::server {
namespace {

Incoming with(std::string name, std::string value) {
  Incoming incoming;
  incoming.headers.emplace_back(std::move(name), std::move(value));
  return incoming;
}

TEST(Guard, TakesAKeyAsBearerOrXApiKeyInAnyCase) {
  const std::vector<std::string> keys{"first-key", "second"};
  EXPECT_TRUE(key_fits(with("Authorization", "Bearer first-key"), keys));
  EXPECT_TRUE(key_fits(with("authorization", "bearer second"), keys));
  EXPECT_TRUE(key_fits(with("X-API-Key", "second"), keys));
  EXPECT_FALSE(key_fits(with("Authorization", "Bearer second-key"), keys));
  EXPECT_FALSE(key_fits(with("Authorization", "Bearer "), keys));
  EXPECT_FALSE(key_fits(with("Authorization", "Basic second"), keys));
  EXPECT_FALSE(key_fits(Incoming(), keys));
  EXPECT_TRUE(key_fits(Incoming(), {})) << "no key is asked for";
}

TEST(Guard, AnEmptyKeyAdmitsNobody) {
  EXPECT_FALSE(key_fits(Incoming(), {"first-key", ""}));
  EXPECT_FALSE(key_fits(with("Authorization", "Bearer "), {""}));
  EXPECT_FALSE(key_fits(with("x-api-key", ""), {""}));
}

TEST(Guard, ComparesSecretsByAllOfTheirBytes) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("ab", "abc"));
  EXPECT_FALSE(same_secret("abcabc", "abc"));
  EXPECT_FALSE(same_secret("abcd", "abc"));
  EXPECT_FALSE(same_secret("", "abc"));
  EXPECT_FALSE(same_secret("xbc", "abc"));
}

TEST(Guard, KnowsLoopbackOriginsAndNoLookalikes) {
  for (const char* good :
       {"http://localhost", "http://localhost:3000", "https://127.0.0.1:8443", "http://[::1]:80"}) {
    EXPECT_TRUE(is_loopback_origin(good)) << good;
  }
  for (const char* bad : {"http://localhost.evil.org", "http://127.0.0.1.evil.org", "http://evil.org", "null",
                          "", "ftp://localhost", "http://localhosts:3000", "http://evil.org:localhost"}) {
    EXPECT_FALSE(is_loopback_origin(bad)) << bad;
  }
}

TEST(Guard, ListsOriginsByTheirWholeNames) {
  EXPECT_TRUE(origin_fits("https://chat.example.org", {"https://chat.example.org"}));
  EXPECT_FALSE(origin_fits("https://chat.example.org.evil", {"https://chat.example.org"}));
  EXPECT_TRUE(origin_fits("https://anything", {"*"}));
}

}  // namespace
}  // namespace ft::server
