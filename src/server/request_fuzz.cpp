// Feeds arbitrary bytes of a client, in two pieces, to a real socket. Reading must end, and every request
// must be answerable: its id and origin are safe in a response header, a refusal is a client error with a
// JSON body, and the router accepts or refuses the path.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "api/fields.h"
#include "server/reader.h"
#include "server/router.h"
#include "server/routes.h"

namespace {

namespace net = boost::asio;
using ft::server::Received;

constexpr int kMaxRequests = 8;  // per connection

void demand(bool holds) {
  if (!holds) std::abort();
}

bool fits_a_head(std::string_view value) {
  return value.find('\r') == std::string_view::npos && value.find('\n') == std::string_view::npos &&
         value.find('\0') == std::string_view::npos;
}

void check_reply(const ft::api::HttpResponse& reply) {
  demand(reply.status >= 200 && reply.status < 600);
  for (const auto& [name, value] : reply.headers) demand(!name.empty() && fits_a_head(value));
  if (reply.status >= 400) demand(nlohmann::json::parse(reply.body, nullptr, false).is_object());
}

void check(Received& received) {
  static const ft::server::ServerOptions options = [] {
    ft::server::ServerOptions made;
    made.api_keys = {"key"}, made.admin_keys = {"admin"}, made.origins = {"http://here"};
    return made;
  }();
  static ft::server::App app;  // never ready: another target covers the endpoints
  static const ft::server::Router router(options, app);
  ft::server::HttpRequest& http_request = received.http_request;
  demand(!http_request.id.empty() && fits_a_head(http_request.id));
  for (const auto& [name, value] : router.standing_headers(http_request)) demand(fits_a_head(value));
  demand(!ft::server::route_of(http_request.path).pattern.empty());
  if (received.kind == Received::Kind::kRefused) {
    demand(received.refusal.status >= 400 && received.refusal.status < 504);
    return check_reply(received.refusal);
  }
  demand(http_request.body.size() <= ft::api::kMaxBodyBytes);
  if (const auto refusal = router.check_request(http_request)) check_reply(*refusal);
  const ft::server::Answer answer = router.route(http_request);
  demand(std::holds_alternative<ft::api::HttpResponse>(answer));
  check_reply(std::get<ft::api::HttpResponse>(answer));
}

net::awaitable<void> read_all(boost::beast::tcp_stream& stream, bool& done) {
  const ft::server::ServerOptions options;
  ft::server::BodyBudget bodies(ft::server::kMaxBodiesBytes);
  boost::beast::flat_buffer buffer(ft::server::kMaxRequestHeaderBytes);
  for (int i = 0; i < kMaxRequests; ++i) {
    ft::server::RequestReader reader(stream, buffer, options, bodies);
    Received received = co_await reader.read_header();
    if (received.kind == Received::Kind::kRequest) co_await reader.body(received);
    if (received.kind == Received::Kind::kGone) break;
    check(received);
    if (!received.keep_alive) break;
  }
  done = true;
}

void send(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;  // the buffer is full, or the reader has ended
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t cut = (data[0] | data[1] << 8U) % (bytes.size() + 1);
  int ends[2];
  demand(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  {
    net::io_context io(1);
    net::ip::tcp::socket socket(io);
    socket.assign(net::ip::tcp::v4(), ends[0]);  // uses no feature that only TCP has
    boost::beast::tcp_stream stream(std::move(socket));
    bool done = false;
    net::co_spawn(io, read_all(stream, done), net::detached);
    send(ends[1], bytes.substr(0, cut));
    io.poll();
    send(ends[1], bytes.substr(cut));
    ::shutdown(ends[1], SHUT_WR);
    io.run();
    demand(done);
  }
  ::close(ends[1]);
  return 0;
}
