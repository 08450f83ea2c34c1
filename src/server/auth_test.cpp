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
  EXPECT_TRUE(KeyRing({}, {}).caller(HttpRequest())->is_operator) << "no keys: every caller may do all";
}

TEST(Auth, ReplacedKeysCountFromThenOn) {
  LiveKeys keys(KeyRing({"old"}, {}));
  const std::shared_ptr<const KeyRing> before = keys.get();
  keys.replace(KeyRing({"new"}, {}));
  EXPECT_TRUE(before->caller(with("x-api-key", "old"))) << "a reader that has them keeps them";
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

TEST(Auth, BehindAFrontOnlyItsSecretAdmitsAndItNamesTheCaller) {
  const KeyRing ring = KeyRing::behind_front("secret");
  HttpRequest from_front = with("Authorization", "Bearer secret");
  EXPECT_FALSE(ring.caller(from_front)) << "it names nobody";
  from_front.headers.emplace_back(kCallerHeader, caller_text({77, false}));
  ASSERT_TRUE(ring.caller(from_front));
  EXPECT_EQ(ring.caller(from_front)->owner, 77U);
  EXPECT_FALSE(ring.caller(from_front)->is_operator);
  EXPECT_FALSE(ring.caller(with(std::string(kCallerHeader), "77 operator"))) << "without the secret";
  EXPECT_TRUE(read_caller(caller_text({7, true}))->is_operator);
  for (const char* wrong : {"", "x", "7 chief", "7 operator ", "-1", "99999999999999999999999"})
    EXPECT_FALSE(read_caller(wrong)) << wrong;
}

TEST(Auth, WithoutAFrontTheCallersNameCountsForNothing) {
  HttpRequest forged = with("x-api-key", "one");
  forged.headers.emplace_back(kCallerHeader, "0 operator");
  EXPECT_FALSE(KeyRing({"one"}, {}).caller(forged)->is_operator);
}

}  // namespace
}  // namespace ft::server::auth_test
