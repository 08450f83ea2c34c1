#include "server/access_log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace ft::server::access_log_test {
namespace {

HttpRequest asked(std::string path) {
  HttpRequest http_request;
  http_request.method = "GET", http_request.path = std::move(path), http_request.id = "req_1";
  return http_request;
}

std::string line_of(const std::string& path, bool json = false) {
  return access_text(asked(path), {200, 1.25, "12 tokens"}, json);
}

TEST(AccessLog, ALineSaysWhatWasAskedAndHowItEnded) {
  EXPECT_EQ(line_of("/v1/models"), "GET /v1/models 200 1 ms, 12 tokens");
  const auto json = nlohmann::json::parse(line_of("/v1/models", true));
  EXPECT_EQ(json["path"], "/v1/models");
  EXPECT_EQ(json["id"], "req_1");
  EXPECT_EQ(json["note"], "12 tokens");
}

TEST(AccessLog, PollsThatWentWellAreNoNews) {
  for (const char* path : {"/health", "/metrics", "/v1/cache"}) {
    HttpRequest poll = asked(path);
    EXPECT_TRUE(is_poll(poll, {200, 1, ""})) << path;
    EXPECT_FALSE(is_poll(poll, {503, 1, ""})) << path;
    poll.method = "DELETE";
    EXPECT_FALSE(is_poll(poll, {200, 1, ""})) << path;
  }
  EXPECT_FALSE(is_poll(asked("/v1/models"), {200, 1, ""}));
}

TEST(AccessLog, NothingThatATerminalActsOnGetsThrough) {
  const std::string hostile = std::string("/a\nb\r\x1B[2J\x7F\x00z", 11) +
                              "\xC2\x9B"
                              "31m\xE2\x80\xAE\xE2\x80\xA8\xFF\\u000a";
  for (const bool json : {false, true}) {
    const std::string line = line_of(hostile, json);
    EXPECT_TRUE(utf8_valid(line));
    for (const char c : line) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) << line;
    for (const char* bad : {"\xC2\x9B", "\xE2\x80\xAE", "\xE2\x80\xA8"}) {
      EXPECT_EQ(line.find(bad), std::string::npos) << line;
    }
  }
  EXPECT_NE(line_of("/a\nb").find("/a\\u000ab"), std::string::npos);
  EXPECT_NE(line_of("/a\\u000ab").find("/a\\\\u000ab"), std::string::npos) << "the two differ";
  EXPECT_NE(line_of("/\xC3\xA4").find("/\xC3\xA4"), std::string::npos) << "letters stay";
  EXPECT_EQ(nlohmann::json::parse(line_of("/a\nb\x7F", true))["path"], "/a\nb\x7F");
}

TEST(AccessLog, ALongFieldIsCut) {
  for (const bool json : {false, true}) {
    const std::string line = line_of("/" + std::string(60'000, 'x'), json);
    EXPECT_LT(line.size(), 1300U);
    EXPECT_NE(line.find("xxx..."), std::string::npos);
  }
}

}  // namespace
}  // namespace ft::server::access_log_test
