#include "server/auth.h"

#include <gtest/gtest.h>

namespace ft::server {
namespace {

HttpRequest with(std::string name, std::string value) {
  HttpRequest http_request;
  http_request.headers.emplace_back(std::move(name), std::move(value));
  return http_request;
}

TEST(Auth, TakesAKeyAsBearerOrXApiKeyInAnyCase) {
  const std::vector<std::string> keys{"first-key", "second"};
  EXPECT_TRUE(key_fits(with("Authorization", "Bearer first-key"), keys));
  EXPECT_TRUE(key_fits(with("authorization", "bearer second"), keys));
  EXPECT_TRUE(key_fits(with("X-API-Key", "second"), keys));
  EXPECT_FALSE(key_fits(with("Authorization", "Bearer second-key"), keys));
  EXPECT_FALSE(key_fits(with("Authorization", "Bearer "), keys));
  EXPECT_FALSE(key_fits(with("Authorization", "Basic second"), keys));
  EXPECT_FALSE(key_fits(HttpRequest(), keys));
  EXPECT_TRUE(key_fits(HttpRequest(), {})) << "no key is asked for";
}

TEST(Auth, AnEmptyKeyAdmitsNobody) {
  EXPECT_FALSE(key_fits(HttpRequest(), {"first-key", ""}));
  EXPECT_FALSE(key_fits(with("Authorization", "Bearer "), {""}));
  EXPECT_FALSE(key_fits(with("x-api-key", ""), {""}));
}

TEST(Auth, ComparesSecretsByAllOfTheirBytes) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("ab", "abc"));
  EXPECT_FALSE(same_secret("abcabc", "abc"));
  EXPECT_FALSE(same_secret("abcd", "abc"));
  EXPECT_FALSE(same_secret("", "abc"));
  EXPECT_FALSE(same_secret("xbc", "abc"));
}

}  // namespace
}  // namespace ft::server
