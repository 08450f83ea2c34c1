// Files of the web from a server of this test on 127.0.0.1, which only the test's predicate allows.
#include "hub/web_file.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "hub/curl_library.h"

namespace ft::hub::web_file_test {
namespace {

using Address = std::span<const std::uint8_t>;

std::vector<std::uint8_t> bytes(const std::string& text) {
  std::vector<std::uint8_t> address(16);
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  EXPECT_EQ(::inet_pton(AF_INET, text.c_str(), address.data()), 1) << text;
  address.resize(4);
  return address;
}

TEST(OwnAddress, IsOneThatThisMachineAnswersFor) {
  EXPECT_TRUE(is_own_address(bytes("127.0.0.1")));
  EXPECT_TRUE(is_own_address(bytes("::ffff:127.0.0.1")));
  EXPECT_FALSE(is_own_address(bytes("1.1.1.1")));
  EXPECT_FALSE(is_own_address(bytes("2606:4700::1111")));
  EXPECT_FALSE(may_be_asked(bytes("127.0.0.1")));
}

TEST(PublicAddress, RangesThatAreNotPublicBeginAndEndWhereTheRegistrySays) {
  for (const char* text :
       {"1.1.1.1",         "9.255.255.255",   "11.0.0.0",        "100.63.255.255", "100.128.0.0",
        "126.255.255.255", "128.0.0.0",       "169.253.255.255", "169.255.0.0",    "172.15.255.255",
        "172.32.0.0",      "192.167.255.255", "192.169.0.0",     "198.17.255.255", "198.20.0.0",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::",     "2001:200::1",    "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8"})
    EXPECT_TRUE(is_public_address(bytes(text))) << text;
  for (const char* text : {"0.0.0.0",
                           "0.255.255.255",
                           "10.0.0.0",
                           "10.255.255.255",
                           "100.64.0.0",
                           "100.127.255.255",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.0.0",
                           "169.254.169.254",
                           "172.16.0.0",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.0.0",
                           "192.168.255.255",
                           "198.18.0.0",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.255",
                           "224.0.0.0",
                           "239.1.1.1",
                           "240.0.0.0",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "fe80::1",
                           "fc00::1",
                           "fd12::1",
                           "ff02::1",
                           "fec0::1",
                           "2001:db8::1",
                           "2001::1",
                           "2001:10::1",
                           "2002:7f00:1::",
                           "3fff::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::127.0.0.1",
                           "64:ff9b::127.0.0.1",
                           "64:ff9b:1::1",
                           "100::1"})
    EXPECT_FALSE(is_public_address(bytes(text))) << text;
  EXPECT_FALSE(is_public_address({}));
}

/// Answers each request by its path: /file, /to?URL (a redirect), /chain/N (N redirects), /big, /endless,
/// /cut and /silent.
class TestServer {
 public:
  TestServer() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    socklen_t size = sizeof(at);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ~TestServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (const int silent : silent_) ::close(silent);
    ::close(listener_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return fmt::format("http://{}:{}{}", host, port_, path);
  }
  int connections() const { return connections_; }

 private:
  void serve() {
    for (int client = 0; (client = ::accept(listener_, nullptr, nullptr)) >= 0;) {
      ++connections_;
      if (!answer(client)) {
        silent_.push_back(client);
      } else {
        ::close(client);
      }
    }
  }
  static void send(int client, const std::string& text) {
    (void)::send(client, text.data(), text.size(), MSG_NOSIGNAL);
  }
  static std::string redirect(const std::string& to) {
    return "HTTP/1.1 302 Found\r\nLocation: " + to + "\r\nContent-Length: 5\r\n\r\nmoved";
  }
  /// False keeps the connection open without a byte.
  static bool answer(int client) {
    std::string head;
    char buffer[4096];
    while (head.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(client, buffer, sizeof(buffer), 0);
      if (got <= 0) return true;
      head.append(buffer, static_cast<std::size_t>(got));
    }
    const std::string path = head.substr(4, head.find(' ', 4) - 4);
    if (path == "/file") {
      send(client, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\na file!\n");
    } else if (path.starts_with("/to?")) {
      send(client, redirect(path.substr(4)));
    } else if (path.starts_with("/chain/")) {
      const int left = std::stoi(path.substr(7));
      send(client, redirect(left > 1 ? fmt::format("/chain/{}", left - 1) : "/file"));
    } else if (path == "/big") {
      send(client, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na file!!\n");
    } else if (path == "/endless") {
      send(client, "HTTP/1.1 200 OK\r\n\r\n" + std::string(1 << 20, 'x'));
    } else if (path == "/cut") {
      send(client, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\na fi");
    } else if (path == "/silent") {
      return false;
    } else {
      send(client, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    }
    return true;
  }

  int listener_;
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::vector<int> silent_;
  std::jthread thread_;
};

class WebFile : public testing::Test {
 protected:
  void SetUp() override {
    if (curl_library() == nullptr) GTEST_SKIP() << "libcurl is not on this machine";
  }
  static WebFileLimits limits() {
    WebFileLimits limits;
    limits.bytes = 8;
    limits.allows = [](Address address) { return std::ranges::equal(address, bytes("127.0.0.1")); };
    return limits;
  }
  std::string refused(const std::string& url, const WebFileLimits& limits) {
    const Result<std::string> file = fetch_web_file(url, limits);
    EXPECT_FALSE(file.ok()) << url;
    if (file.ok()) return {};
    EXPECT_EQ(file.error().code, Code::kInvalid) << file.error().message;
    return file.error().message;
  }
  TestServer server_;
};

TEST_F(WebFile, IsFetchedUpToTheLimitOfBytes) {
  const Result<std::string> file = fetch_web_file(server_.url("/file"), limits());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file, "a file!\n");
  for (const char* path : {"/big", "/endless"})
    EXPECT_NE(refused(server_.url(path), limits()).find("more than 8 bytes"), std::string::npos) << path;
}

TEST_F(WebFile, ThisMachineIsNeverAskedWhateverItsName) {
  for (const char* host : {"127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "0.0.0.0", "[::1]",
                           "[::ffff:127.0.0.1]"}) {
    const std::string problem = refused(server_.url("/file", host), {});
    EXPECT_NE(problem.find("not a public address"), std::string::npos) << host << ": " << problem;
  }
  EXPECT_EQ(server_.connections(), 0);
}

TEST_F(WebFile, EachRedirectIsJudgedAgain) {
  const std::string elsewhere = server_.url("/file", "127.0.0.2");
  EXPECT_NE(refused(server_.url("/to?" + elsewhere), limits()).find("not a public address"),
            std::string::npos);
  EXPECT_EQ(server_.connections(), 1);
  EXPECT_TRUE(fetch_web_file(server_.url("/to?" + server_.url("/file")), limits()).ok());
  for (const char* target : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"})
    EXPECT_FALSE(refused(server_.url(std::string("/to?") + target), limits()).empty()) << target;
}

TEST_F(WebFile, RedirectsAreCounted) {
  EXPECT_TRUE(fetch_web_file(server_.url(fmt::format("/chain/{}", kMaxFileRedirects)), limits()).ok());
  const std::string problem = refused(server_.url(fmt::format("/chain/{}", kMaxFileRedirects + 1)), limits());
  EXPECT_NE(problem.find("redirects more than"), std::string::npos) << problem;
}

TEST_F(WebFile, AServerThatIsSilentCutsOrHasNothingIsTold) {
  WebFileLimits brief = limits();
  brief.total_ms = 100;
  EXPECT_NE(refused(server_.url("/silent"), brief).find("100 ms"), std::string::npos);
  EXPECT_FALSE(refused(server_.url("/cut"), limits()).empty());
  EXPECT_NE(refused(server_.url("/nothing"), limits()).find("404"), std::string::npos);
}

TEST_F(WebFile, OtherSchemesAndCredentialsAreRefused) {
  for (const std::string& url : {std::string("file:///etc/passwd"), std::string("ftp://127.0.0.1/x"),
                                 std::string("nonsense"), server_.url("/file", "user:secret@127.0.0.1")})
    EXPECT_FALSE(refused(url, limits()).empty()) << url;
  EXPECT_EQ(server_.connections(), 0);
}

}  // namespace
}  // namespace ft::hub::web_file_test
