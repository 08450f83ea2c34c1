#include "server/server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <fmt/format.h>
#include <list>

#include "base/log.h"
#include "server/connection.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
using net::ip::tcp;
using std::chrono::milliseconds;

constexpr auto kAwaitClients = net::as_tuple(net::use_awaitable);

}  // namespace

struct Server::Impl {
  Impl(const ServerOptions& options, App& app) : server_context(options, app) {}

  ~Impl() {
    if (front) front->close();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status open();
  net::awaitable<void> accept();
  bool spawn(tcp::socket socket);
  void run();
  net::awaitable<void> wait_for_the_last(int grace_ms);

  ServerContext server_context;
  std::unique_ptr<Front> front;  // outlives the coroutines, which end with `io`
  net::io_context io{1};
  tcp::acceptor acceptor{io};
  int port = 0;
};

Status Server::Impl::open() {
  const ServerOptions& options = server_context.options;
  boost::system::error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return Error{Code::kInvalid,
                 fmt::format("--host: \"{}\" is not an address of this machine ({}); try 127.0.0.1",
                             options.host, error.message())};
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  (void)acceptor.open(endpoint.protocol(), error);
  if (!error) (void)acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) (void)acceptor.bind(endpoint, error);
  if (!error) (void)acceptor.listen(1024, error);
  if (error == net::error::address_in_use) {
    return Error{
        Code::kIo,
        fmt::format(
            "port {} of {} is used by another program; choose another --port, or --port 0 for any free one",
            options.port, options.host)};
  }
  if (error == net::error::access_denied) {
    return Error{Code::kIo, fmt::format("port {} needs root privileges; choose one above 1023 with --port",
                                        options.port)};
  }
  if (error) {
    return Error{Code::kIo, fmt::format("cannot listen at {} port {}: {}; try --host 127.0.0.1", options.host,
                                        options.port, error.message())};
  }
  port = acceptor.local_endpoint().port();
  return {};
}

net::awaitable<void> Server::Impl::accept() {
  constexpr milliseconds kLookAgain{20};
  net::steady_timer pause(io);
  while (!server_context.stopping) {
    if (server_context.connections >= server_context.options.connections) {
      pause.expires_after(kLookAgain);
      (void)co_await pause.async_wait(kAwaitClients);
      continue;
    }
    auto [error, socket] = co_await acceptor.async_accept(kAwaitClients);
    if (server_context.stopping) break;
    if (error || !spawn(std::move(socket))) {  // out of file descriptors or memory: a later one may succeed
      pause.expires_after(kLookAgain);
      (void)co_await pause.async_wait(kAwaitClients);
    }
  }
}

/// A connection logs its own exceptions.
bool Server::Impl::spawn(tcp::socket socket) {
  try {
    net::co_spawn(io, serve_connection(std::move(socket), server_context), net::detached);
    return true;
  } catch (const std::exception& what) {
    log_error(fmt::format("a connection could not be accepted: {}", what.what()));
    return false;
  }
}

/// Runs until stopped. An exception in a handler ends only that handler's connection.
void Server::Impl::run() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& what) {
      log_error(fmt::format("a handler of the server failed: {}", what.what()));
    }
  }
}

net::awaitable<void> Server::Impl::wait_for_the_last(int grace_ms) {
  constexpr milliseconds kLookAgain{10};
  net::steady_timer timer(io);
  const auto end = std::chrono::steady_clock::now() + milliseconds(grace_ms);
  while (server_context.app.decoding() > 0 && std::chrono::steady_clock::now() < end) {
    timer.expires_after(kLookAgain);
    (void)co_await timer.async_wait(kAwaitClients);
  }
  if (front) front->stop();
  timer.expires_after(kLookAgain);  // sends the last bytes of the last answer
  (void)co_await timer.async_wait(kAwaitClients);
  io.stop();
}

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options, App& app) {
  auto impl = std::make_unique<Impl>(options, app);
  FT_TRY(impl->open());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options, App& app, FrontOptions front,
                                               std::unique_ptr<ModelStarter> starter) {
  FT_ASSIGN(std::unique_ptr<Server> server, listen(options, app));
  Impl& impl = *server->impl_;
  impl.front = std::make_unique<Front>(impl.io.get_executor(), std::move(front), std::move(starter));
  impl.server_context.front = impl.front.get();
  app.fronts();
  return server;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

int Server::port() const { return impl_->port; }

void Server::replace_keys(const std::vector<std::string>& keys,
                          const std::vector<std::string>& operator_keys) {
  impl_->server_context.router.replace_keys(KeyRing(keys, operator_keys));
}

void Server::run() {
  net::co_spawn(impl_->io, impl_->accept(), net::detached);
  if (impl_->front) net::co_spawn(impl_->io, impl_->front->run(), net::detached);
  impl_->run();
  impl_->server_context.text.join();
}

void Server::stop(int grace_ms) {
  net::post(impl_->io, [this, grace_ms] {
    impl_->server_context.stopping = true;
    impl_->server_context.app.drain();
    boost::system::error_code ignored;
    (void)impl_->acceptor.close(ignored);
    net::co_spawn(impl_->io, impl_->wait_for_the_last(grace_ms), net::detached);
  });
}

}  // namespace ft::server
