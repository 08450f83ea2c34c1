#include "api/error_reply.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/json.h"

namespace ft::api::error_reply_test {
namespace {

bool says_not_to_retry(const HttpResponse& reply) {
  return std::find(reply.headers.begin(), reply.headers.end(),
                   std::pair<std::string, std::string>("x-should-retry", "false")) != reply.headers.end();
}

TEST(ErrorReply, AnthropicsClientsGetTheirKinds) {
  const auto kind = [](Code code, int status = 0) {
    const HttpResponse reply = error_reply(Dialect::kAnthropic, {code, "why"}, "req_1", status);
    const Json json = Json::parse(reply.body);
    EXPECT_EQ(json["type"], "error");
    EXPECT_EQ(json["error"]["message"], "why");
    EXPECT_EQ(json["request_id"], "req_1");
    return std::pair(reply.status, json["error"]["type"].get<std::string>());
  };
  using Kind = std::pair<int, std::string>;
  EXPECT_EQ(kind(Code::kInvalid), Kind(400, "invalid_request_error"));
  EXPECT_EQ(kind(Code::kUnsupported), Kind(400, "invalid_request_error"));
  EXPECT_EQ(kind(Code::kTooLong), Kind(400, "invalid_request_error"));
  EXPECT_EQ(kind(Code::kInvalid, 401), Kind(401, "authentication_error"));
  EXPECT_EQ(kind(Code::kInvalid, 403), Kind(403, "permission_error"));
  EXPECT_EQ(kind(Code::kNotFound), Kind(404, "not_found_error"));
  EXPECT_EQ(kind(Code::kInvalid, 413), Kind(413, "request_too_large"));
  EXPECT_EQ(kind(Code::kBusy), Kind(429, "rate_limit_error"));
  EXPECT_EQ(kind(Code::kCancelled), Kind(529, "overloaded_error"));
  EXPECT_EQ(kind(Code::kIo), Kind(500, "api_error"));
  EXPECT_EQ(kind(Code::kExhausted), Kind(507, "api_error"));
}

TEST(ErrorReply, OnlyWhatMaySucceedLaterIsTriedAgain) {
  for (const Dialect dialect : {Dialect::kOpenAi, Dialect::kAnthropic}) {
    const auto final = [&](Code code) { return says_not_to_retry(error_reply(dialect, {code, "why"}, "")); };
    EXPECT_FALSE(final(Code::kBusy));
    EXPECT_FALSE(final(Code::kCancelled));
    EXPECT_TRUE(final(Code::kInvalid));
    EXPECT_TRUE(final(Code::kExhausted));
    EXPECT_TRUE(final(Code::kIo));
  }
}

TEST(ErrorReply, AnthropicsSdkLearnsThatItMustSendTheWholeConversation) {
  const HttpResponse reply =
      error_reply(Dialect::kAnthropic, {Code::kUnsupported, "thread: send all messages", "thread"}, "");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(Json::parse(reply.body)["error"]["details"]["error_code"], "thread_unsupported_request");
}

}  // namespace
}  // namespace ft::api::error_reply_test
