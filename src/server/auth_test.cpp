#include "server/auth.h"

#include <gtest/gtest.h>

namespace ft::server::auth_test {
namespace {

HttpRequest with(std::string name, std::string value) {
  HttpRequest http_request;
  http_request.headers.emplace_back(std::move(name), std::move(value));
  return http_request;
}

bool fits(const HttpRequest& http_request, const std::vector<std::string>& keys) {
  return KeyRing(keys, {}).caller(http_request).has_value();
}

TEST(Auth, TakesAKeyAsBearerOrXApiKeyInAnyCase) {
  const std::vector<std::string> keys{"first-key", "second"};
  EXPECT_TRUE(fits(with("Authorization", "Bearer first-key"), keys));
  EXPECT_TRUE(fits(with("authorization", "bearer second"), keys));
  EXPECT_TRUE(fits(with("Authorization", "Bearer   second"), keys)) << "blanks may follow the scheme";
  EXPECT_TRUE(fits(with("X-API-Key", "second"), keys));
  EXPECT_FALSE(fits(with("Authorization", "Bearer second-key"), keys));
  EXPECT_FALSE(fits(with("Authorization", "Bearer "), keys));
  EXPECT_FALSE(fits(with("Authorization", "Bearersecond"), keys));
  EXPECT_FALSE(fits(with("Authorization", "Basic second"), keys));
  EXPECT_FALSE(fits(HttpRequest(), keys));
  EXPECT_TRUE(fits(HttpRequest(), {})) << "no key is asked for";
}

TEST(Auth, AnEmptyKeyAdmitsNobody) {
  EXPECT_FALSE(fits(HttpRequest(), {"first-key", ""}));
  EXPECT_FALSE(fits(with("Authorization", "Bearer "), {""}));
  EXPECT_FALSE(fits(with("Authorization", "Bearer    "), {""}));
  EXPECT_FALSE(fits(with("x-api-key", ""), {""}));
}

TEST(Auth, EachKeyIsItsOwnCallerAndThatOfTheAdminFileAnOperator) {
  const KeyRing keys({"one", "two", "both"}, {"chief", "both"});
  const auto caller = [&](const char* key) { return *keys.caller(with("x-api-key", key)); };
  EXPECT_NE(caller("one").owner, caller("two").owner);
  EXPECT_EQ(caller("one").owner, KeyRing({"two", "one"}, {}).caller(with("x-api-key", "one"))->owner)
      << "whatever other keys there are";
  EXPECT_FALSE(caller("one").may_use(caller("two").owner));
  EXPECT_TRUE(caller("one").may_use(caller("one").owner));
  EXPECT_FALSE(caller("one").is_operator);
  EXPECT_TRUE(caller("chief").may_use(caller("one").owner));
  EXPECT_TRUE(caller("both").is_operator);
  EXPECT_FALSE(keys.caller(HttpRequest()));
  EXPECT_FALSE(KeyRing({}, {"chief"}).caller(HttpRequest())) << "an operator's key asks for keys too";
  EXPECT_TRUE(KeyRing({}, {}).caller(HttpRequest())->is_operator) << "without keys everybody may do all";
}

TEST(Auth, ReplacedKeysCountFromThenOn) {
  LiveKeys keys(KeyRing({"old"}, {}));
  const std::shared_ptr<const KeyRing> before = keys.get();
  keys.replace(KeyRing({"new"}, {}));
  EXPECT_TRUE(before->caller(with("x-api-key", "old"))) << "whoever reads them meanwhile keeps them";
  EXPECT_FALSE(keys.get()->caller(with("x-api-key", "old")));
  EXPECT_TRUE(keys.get()->caller(with("x-api-key", "new")));
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
}  // namespace ft::server::auth_test
