#include "server/client.h"

#include <boost/asio/buffers_iterator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <thread>

namespace ft::server::client_test {
namespace {

namespace net = boost::asio;

/// Accepts one connection, reads its request header, writes `answer`, and closes; or keeps it open in
/// silence.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer)
      : acceptor_(io_, {net::ip::address_v4::loopback(), 0}), thread_([this, text = std::move(answer)] {
          net::ip::tcp::socket socket(io_);
          boost::system::error_code error;
          acceptor_.accept(socket, error);
          net::streambuf head;
          net::read_until(socket, head, "\r\n\r\n", error);
          head_.assign(net::buffers_begin(head.data()), net::buffers_end(head.data()));
          net::write(socket, net::buffer(text), error);
          if (!text.empty()) socket.shutdown(net::ip::tcp::socket::shutdown_send, error);
          net::read(socket, head, error);  // until the client closes
        }) {}
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", acceptor_.local_endpoint().port()); }
  std::string head() {
    thread_.join();
    return head_;
  }

 private:
  net::io_context io_;
  net::ip::tcp::acceptor acceptor_;
  std::string head_;
  std::thread thread_;
};

Client client(const std::string& url, ClientOptions options = {}) {
  Result<Client> made = Client::make(url, "secret", options);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

TEST(Client, ReadsAnUrlInItsForms) {
  EXPECT_EQ(client("http://127.0.0.1:8080/").url(), "http://127.0.0.1:8080");
  EXPECT_EQ(client("localhost").url(), "http://localhost:80");
  EXPECT_EQ(client("[::1]:8080").authority(), "[::1]:8080") << "the name in Host";
  EXPECT_EQ(client("http://[::1]:9/a/b/").url(), "http://[::1]:9/a/b");
  EXPECT_EQ(Client::make("https://x", "").error().code, Code::kUnsupported);
  for (const char* url :
       {"", "http://", "ftp://x", "http://x:", "http://x:65536", "http://x:1a", "a b", "http://x/\n"}) {
    const Result<Client> made = Client::make(url, "");
    ASSERT_FALSE(made.ok()) << url;
    EXPECT_EQ(made.error().code, Code::kInvalid) << url;
  }
  EXPECT_TRUE(Client::make("http://x:65535", "").ok());
}

TEST(Client, GivesStatusHeadAndBody) {
  OneAnswer server("HTTP/1.1 404 Not Found\r\nX-Thing: a\r\nContent-Length: 2\r\n\r\nno");
  const Result<ClientResponse> reply = client(server.url()).get("/v1/models");
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 404);
  EXPECT_EQ(reply->body, "no");
  EXPECT_EQ(reply->header("x-thing"), "a");
  const std::string head = server.head();
  EXPECT_TRUE(head.starts_with("GET /v1/models HTTP/1.1\r\n"));
  EXPECT_NE(head.find("Authorization: Bearer secret"), std::string::npos);
}

TEST(Client, ReadsAStreamByLinesHoweverItIsCut) {
  OneAnswer server(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4\r\nda\r\n\r\n8\r\nta: 1\n\nd\r\n3\r\nata\r\n0\r\n\r\n");
  std::vector<std::string> lines;
  const Result<ClientResponse> reply = client(server.url()).stream("/x", "{}", [&](std::string_view line) {
    lines.emplace_back(line);
    return true;
  });
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_TRUE(reply->body.empty());
  EXPECT_EQ(lines, (std::vector<std::string>{"da", "ta: 1", "", "data"}));
}

TEST(Client, AStreamThatIsEnoughIsLeft) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na\nb\nc\n");
  int lines = 0;
  const Result<ClientResponse> reply =
      client(server.url()).stream("/x", "{}", [&](std::string_view) { return ++lines < 2; });
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(lines, 2);
}

TEST(Client, ARefusedStreamGivesItsBody) {
  OneAnswer server("HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\n{}");
  bool called = false;
  const Result<ClientResponse> reply = client(server.url()).stream("/x", "{}", [&](std::string_view) {
    called = true;
    return true;
  });
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 400);
  EXPECT_EQ(reply->body, "{}");
  EXPECT_FALSE(called);
}

TEST(Client, SilenceEnds) {
  OneAnswer server("");
  const Result<ClientResponse> reply = client(server.url(), {1'000, 50}).get("/");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, Code::kIo);
  EXPECT_NE(reply.error().message.find("50 ms"), std::string::npos) << reply.error().message;
}

TEST(Client, NobodyThereIsSaid) {
  net::io_context io;
  net::ip::tcp::acceptor taken(io, {net::ip::address_v4::loopback(), 0});
  const int port = taken.local_endpoint().port();
  taken.close();
  const Result<ClientResponse> reply = client(fmt::format("http://127.0.0.1:{}", port)).get("/");
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().message.find("cannot connect to"), std::string::npos);
}

TEST(Client, WhatIsNoHttpIsAnError) {
  OneAnswer server("hello\r\n\r\n");
  const Result<ClientResponse> reply = client(server.url()).get("/");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, Code::kIo);
}

TEST(Client, OneByteBeyondTheLimitIsTooLong) {
  OneAnswer server(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kMaxAnswerBytes + 1));
  const Result<ClientResponse> reply = client(server.url()).get("/");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, Code::kTooLong);
}

}  // namespace
}  // namespace ft::server::client_test
