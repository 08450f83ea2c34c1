#include "server/host.h"

#include <gtest/gtest.h>

namespace ft::server::host_test {
namespace {

bool fits(std::string_view host, const std::vector<std::string>& allowed = {},
          std::string_view here = "192.0.2.7") {
  const std::optional<Authority> parsed = parse_authority(host);
  return parsed && host_fits(*parsed, here, allowed);
}

TEST(Host, AnAuthorityIsAHostAndAPortAndNoMore) {
  EXPECT_EQ(parse_authority("LocalHost.:8080"), (Authority{"localhost", "8080"}));
  EXPECT_EQ(parse_authority("[::1]:80"), (Authority{"::1", "80"}));
  EXPECT_EQ(parse_authority("a-b_c.example"), (Authority{"a-b_c.example", ""}));
  for (const char* bad :
       {"",          ":80",    ".",           "a b", "a:b", "a:65536",  "a:123456", "a:-1",
        "u@a",       "u:80@a", "a/b",         "a?b", "a#b", "a\\b",     "[::1",     "[::1]x",
        "[::1]x:80", "[a]",    "[127.0.0.1]", "::1", "a,b", "\xC3\xA4", "a:80:80",  "[fe80::1%25eth0]"}) {
    EXPECT_FALSE(parse_authority(bad).has_value()) << bad;
  }
}

TEST(Host, AnAddressOfThisMachineFitsAndAnotherDoesNot) {
  for (const char* good : {"localhost", "localhost:1", "127.0.0.1:8080", "127.8.8.8", "[::1]", "192.0.2.7:80",
                           "[::ffff:127.0.0.1]:80"}) {
    EXPECT_TRUE(fits(good)) << good;
  }
  for (const char* bad : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.8",
                          "[2001:db8::1]", "0x7f.1", "2130706433", "xlocalhost"}) {
    EXPECT_FALSE(fits(bad)) << bad;
  }
  EXPECT_TRUE(fits("192.0.2.7", {}, "::ffff:192.0.2.7")) << "a listener of both families";
}

TEST(Host, ANameFitsOnceItIsAllowed) {
  EXPECT_TRUE(fits("Chat.Example.org:443", {"chat.example.org"}));
  EXPECT_FALSE(fits("chat.example.org.evil", {"chat.example.org"}));
  EXPECT_FALSE(fits("a.chat.example.org", {"chat.example.org"}));
  EXPECT_TRUE(fits("198.51.100.1", {"198.51.100.1"}));
  EXPECT_TRUE(fits("[2001:db8::1]:80", {"2001:DB8:0::1"}));
}

TEST(Host, OnlyHostsMayBeAllowed) {
  for (const char* good : {"example.org", "198.51.100.1", "2001:db8::1", "[2001:db8::1]"}) {
    EXPECT_TRUE(may_be_allowed(good)) << good;
  }
  for (const char* bad :
       {"", "*", "https://example.org", "example.org:80", "example.org:", "*.example.org", "a/b"}) {
    EXPECT_FALSE(may_be_allowed(bad)) << bad;
  }
}

TEST(Host, KnowsLoopbackOriginsAndNoLookalikes) {
  for (const char* good :
       {"http://localhost", "http://localhost:3000", "https://127.0.0.1:8443", "http://[::1]:80"}) {
    EXPECT_TRUE(is_loopback_origin(good)) << good;
  }
  for (const char* bad : {"http://localhost.evil.org", "http://127.0.0.1.evil.org", "http://evil.org", "null",
                          "", "ftp://localhost", "http://localhosts:3000", "http://evil.org:localhost",
                          "http://localhost:80@evil.example", "http://localhost:@evil.example",
                          "http://localhost:80/", "http://localhost:80 http://evil.example"}) {
    EXPECT_FALSE(is_loopback_origin(bad)) << bad;
  }
}

TEST(Host, APageIsItsOwnWhereHostAndOriginNameTheSamePlace) {
  EXPECT_TRUE(is_own_page("http://192.0.2.7:8080", "192.0.2.7:8080"));
  EXPECT_TRUE(is_own_page("https://example.org", "example.org")) << "a proxy ends TLS";
  EXPECT_FALSE(is_own_page("http://192.0.2.7:8080", "192.0.2.7:8081"));
  EXPECT_FALSE(is_own_page("http://192.0.2.7:80@evil.example", "192.0.2.7:80"));
  EXPECT_TRUE(is_own_page("http://[fd00::1]:8080", "[fd00::1]:8080"));
  EXPECT_FALSE(is_own_page("http://192.168.1.6", "192.168.1.5"));
  EXPECT_FALSE(is_own_page("file://192.168.1.5", "192.168.1.5"));
  EXPECT_FALSE(is_own_page("null", ""));
  EXPECT_FALSE(is_own_page("http://", ""));
}

TEST(Host, ListsOriginsByTheirWholeNames) {
  EXPECT_TRUE(origin_fits("https://chat.example.org", {"https://chat.example.org"}));
  EXPECT_TRUE(origin_fits("https://chat.example.org", {"https://Chat.Example.org"}));
  EXPECT_FALSE(origin_fits("https://chat.example.org.evil", {"https://chat.example.org"}));
  EXPECT_FALSE(origin_fits("http://chat.example.org", {"https://chat.example.org"}));
  EXPECT_TRUE(origin_fits("https://anything", {"*"}));
}

}  // namespace
}  // namespace ft::server::host_test
