// Clients on socket pairs, the server's own connections at the other ends, and a fake engine: tests the
// server's handling of bytes without a listener, a model or a clock. Header-only. Owner: a test or a fuzz
// target. Threads: one, and the text pool's.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "server/connection.h"
#include "tests/api_events.h"

namespace ft::server::test {

/// Answers at once; by the length of the prompt it refuses, throws, or does not end before it is cancelled.
class FakeEngine : public EngineClient {
 public:
  enum class Mood { kByLength, kAnswers, kThrows, kWaits };
  explicit FakeEngine(Mood mood) : mood_(mood) {}

  Result<Ticket> submit(Request request) override {
    const std::size_t length = request.fields().prompt.size() % 8;
    if (mood_ == Mood::kThrows || (mood_ == Mood::kByLength && length == 1)) throw std::length_error("fake");
    if (mood_ == Mood::kByLength && length == 2) return Error{Code::kBusy, "the queue is full"};
    auto mailbox = std::make_shared<Mailbox>();
    mailbox->post(api::test::text("Hello"));
    const bool waits = mood_ == Mood::kWaits || (mood_ == Mood::kByLength && length == 3);
    if (!waits) mailbox->post(api::test::end_event(Finish::kStop));
    return Ticket(std::move(mailbox));
  }
  EngineStatus status() const override { return {}; }
  CacheReport cache() const override { return {}; }
  void clear_cache() override {}
  CacheReport cache_of(std::uint64_t) const override { return {}; }
  void clear_cache_of(std::uint64_t) override {}

 private:
  const Mood mood_;
};

class ConnectionRig {
 public:
  ConnectionRig(const ServerOptions& options, FakeEngine::Mood mood,
                std::shared_ptr<const api::ModelInfo> model_info)
      : server_context(options, app) {
    app.ready(std::make_unique<FakeEngine>(mood), std::move(model_info));
  }
  ~ConnectionRig() {
    for (std::size_t i = 0; i < clients_.size(); ++i) leave(i);
  }
  ConnectionRig(const ConnectionRig&) = delete;
  ConnectionRig& operator=(const ConnectionRig&) = delete;

  std::size_t open() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    boost::asio::ip::tcp::socket socket(io_);
    socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
    boost::asio::co_spawn(io_, serve_connection(std::move(socket), server_context), boost::asio::detached);
    clients_.push_back({ends[1], {}});
    return clients_.size() - 1;
  }

  /// Drops the bytes that the server no longer reads.
  void send(std::size_t client, std::string_view bytes) {
    for (bool moved = true; !bytes.empty() && moved;) {
      const ssize_t sent = ::send(clients_[client].socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      moved = sent > 0 || settle();
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  /// Runs until only timers are left; true if anything happened.
  bool settle() {
    bool moved = false;
    for (bool more = true; more; moved = moved || more) {
      wait_for_text_pool();
      more = io_.poll() > 0;
      for (Client& client : clients_) more = receive(client) || more;
    }
    return moved;
  }

  /// Runs, also through pauses, until the client has received `text`.
  void wait_for(std::size_t client, std::string_view text) {
    while (clients_[client].received.find(text) == std::string::npos) {
      io_.run_one();
      settle();
    }
  }

  /// The client stops sending and keeps reading.
  void half_close(std::size_t client) { ::shutdown(clients_[client].socket, SHUT_WR); }

  void leave(std::size_t client) {
    if (const int socket = std::exchange(clients_[client].socket, -1); socket >= 0) ::close(socket);
  }

  /// All clients leave, and every connection ends.
  void finish() {
    settle();
    for (std::size_t i = 0; i < clients_.size(); ++i) leave(i);
    while (server_context.connections > 0) {
      io_.run_one();
      settle();
    }
    settle();
  }

  const std::string& received(std::size_t client) const { return clients_[client].received; }

  App app;
  ServerContext server_context;

 private:
  struct Client {
    int socket;
    std::string received;
  };
  /// A lane works in order, but its work may post a further step: a coroutine has three.
  void wait_for_text_pool() {
    constexpr int kSteps = 4;
    for (int i = 0; i < kSteps; ++i) server_context.text.settle();
  }
  static bool receive(Client& client) {
    char bytes[4096];
    bool any = false;
    for (ssize_t got = 0; (got = ::recv(client.socket, bytes, sizeof bytes, 0)) > 0; any = true) {
      client.received.append(bytes, static_cast<std::size_t>(got));
    }
    return any;
  }

  boost::asio::io_context io_{1};
  std::vector<Client> clients_;
};

}  // namespace ft::server::test
