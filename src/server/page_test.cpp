#include "server/page.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace ft::server::page_test {
namespace {

constexpr unsigned char kBytes[] = {0x1f, 0x8b, 8, 0};
constexpr UiAsset kPage{kBytes, "\"tag\"", "default-src 'none'"};

HttpRequest ask(std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest http_request;
  http_request.method = "GET", http_request.path = "/", http_request.headers = std::move(headers);
  return http_request;
}

std::string header(const api::HttpResponse& reply, std::string_view name) {
  const auto found = std::find_if(reply.headers.begin(), reply.headers.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == reply.headers.end() ? "" : found->second;
}

TEST(Page, ComesGzippedWithItsPolicyAndTag) {
  const api::HttpResponse reply = page_reply(ask({{"Accept-Encoding", "gzip, br"}}), &kPage);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, std::string("\x1f\x8b\x08\x00", 4));
  EXPECT_EQ(reply.type, "text/html; charset=utf-8");
  EXPECT_EQ(header(reply, "Content-Encoding"), "gzip");
  EXPECT_EQ(header(reply, "Content-Security-Policy"), "default-src 'none'");
  EXPECT_EQ(header(reply, "ETag"), "\"tag\"");
}

TEST(Page, IsNotSentTwice) {
  for (const char* tags : {"\"tag\"", "W/\"tag\"", "\"old\", \"tag\"", "*"}) {
    const api::HttpResponse reply =
        page_reply(ask({{"accept-encoding", "gzip"}, {"If-None-Match", tags}}), &kPage);
    EXPECT_EQ(reply.status, 304) << tags;
    EXPECT_TRUE(reply.body.empty());
    EXPECT_EQ(header(reply, "Content-Encoding"), "");
  }
  EXPECT_EQ(page_reply(ask({{"accept-encoding", "gzip"}, {"If-None-Match", "\"old\""}}), &kPage).status, 200);
}

TEST(Page, AClientWithoutGzipGetsASentence) {
  const api::HttpResponse reply = page_reply(ask({}), &kPage);
  EXPECT_EQ(reply.type, "text/plain; charset=utf-8");
  EXPECT_NE(reply.body.find("browser"), std::string::npos);
}

TEST(Page, ABuildWithoutItSaysHowToBuildIt) {
  const api::HttpResponse reply = page_reply(ask({{"accept-encoding", "gzip"}}), nullptr);
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.body.find("-DFORETOKEN_UI=ON"), std::string::npos);
  EXPECT_NE(reply.body.find("tools/setup"), std::string::npos);
}

}  // namespace
}  // namespace ft::server::page_test
