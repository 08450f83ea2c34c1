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

}  // namespace
}  // namespace ft::server
