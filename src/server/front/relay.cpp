#include "server/front/relay.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include "api/choice.h"
#include "api/error_reply.h"
#include "base/log.h"
#include "base/system.h"
#include "base/utf8.h"
#include "server/front/forwarded.h"
#include "server/front/front_answers.h"
#include "server/routes.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr auto kAwaitRelay = net::as_tuple(net::use_awaitable);
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
constexpr int kClientLeft = 499;
constexpr int kConnectTries = 5;

bool is_event_stream(std::string_view type) { return type.starts_with("text/event-stream"); }

api::HttpResponse relay_failure(const HttpRequest& http_request) {
  return api::error_reply(http_request.dialect(), {Code::kIo, "internal server error; see the server's log"},
                          http_request.id);
}

}  // namespace

net::awaitable<Relay::Outcome> Relay::run(Received& received, AccessLine& line) {
  using namespace net::experimental::awaitable_operators;
  Front& front = *server_context_.front;
  const HttpRequest& http_request = received.http_request;
  if (!names_model(http_request))
    co_return co_await front_reply(server_context_, http_request, client_.get_executor());
  const Result<std::size_t> model = co_await choose(http_request);
  if (!model.ok()) co_return api::error_reply(http_request.dialect(), model.error(), http_request.id);
  line.note = front.pool().at(*model).id;
  const App::Registered registered(server_context_.app, api::random_id("relay_"), http_request.caller, [] {});
  const auto begun = co_await (contained_begin(received, *model) || until_left(true));
  if (begun.index() == 1) {
    line.status = kClientLeft, line.note += ", client left";
    co_return false;
  }
  if (refusal_) co_return std::move(*refusal_);
  line.status = static_cast<int>(parser_->get().result_int());
  const auto first = co_await (contained_pass_on(received) || until_left(false));
  if (first.index() == 1 || (!std::get<0>(first) && !broke_)) {
    line.status = kClientLeft, line.note += ", client left";
    co_return false;
  }
  if (broke_) line.status = 500, line.note += ", its process ended";
  co_return std::get<0>(first) && received.keep_alive && !server_context_.stopping;
}

net::awaitable<Result<std::size_t>> Relay::choose(const HttpRequest& http_request) {
  const TextLanes::Lane lane = co_await server_context_.text.lane_of(http_request, nullptr);
  Result<std::string> name = Error{Code::kCancelled, "the server is stopping"};
  co_await server_context_.text.run(lane, [&] {
    if (utf8_valid(http_request.body)) {
      name = api::model_asked(http_request.body);
    } else {
      name = Error{Code::kInvalid, "the body is not UTF-8; encode it before sending"};
    }
  });
  if (!name.ok()) co_return name.error();
  co_return server_context_.front->model_of(*name);
}

/// An exception here ends this request alone.
net::awaitable<void> Relay::contained_begin(Received& received, std::size_t model) {
  try {
    refusal_ = co_await begin(received, model);
    co_return;
  } catch (const boost::system::system_error& error) {
    if (error.code() == net::error::operation_aborted) co_return;  // the client left
    log_error(fmt::format("a request failed: {}", error.what()));
  } catch (const std::exception& what) {
    log_error(fmt::format("a request failed: {}", what.what()));
  }
  refusal_ = relay_failure(received.http_request);
}

/// Up to the header of the process's answer; or a reply that refuses.
net::awaitable<std::optional<api::HttpResponse>> Relay::begin(Received& received, std::size_t model) {
  Front& front = *server_context_.front;
  HttpRequest& http_request = received.http_request;
  const std::string& id = front.pool().at(model).id;
  // Nothing was sent yet: a process that crashed a moment ago is started again.
  for (int tries = kConnectTries; tries > 0; --tries) {
    Result<Front::Lease> lease = co_await front.lease(model);
    if (!lease.ok()) co_return lease_refusal(http_request, lease.error());
    lease_.emplace(std::move(*lease));
    if (co_await connect(model_, *lease_)) break;
    front.doubt(*lease_);
    lease_.reset();
    if (tries == 1) co_return process_ended(http_request, id);
  }
  {
    const http::request<http::string_body> request = forwarded(http_request, front.options().secret);
    // A process that refuses a body may close before it has read all of it: its answer counts.
    const auto [ignored, sent] = co_await http::async_write(model_, request, kAwaitRelay);
    (void)ignored, (void)sent;
  }
  received.share = BodyBudget::Share();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(kMaxRequestHeaderBytes));
  parser_->body_limit(boost::none);
  const auto [error, got] = co_await http::async_read_header(model_, buffer_, *parser_, kAwaitRelay);
  (void)got;
  if (!error) co_return std::nullopt;
  if (error != net::error::operation_aborted) front.doubt(*lease_);
  co_return process_ended(http_request, id);
}

net::awaitable<bool> Relay::contained_pass_on(const Received& received) {
  try {
    co_return co_await pass_on(received);
  } catch (const boost::system::system_error& error) {
    if (error.code() != net::error::operation_aborted)
      log_error(fmt::format("an answer failed: {}", error.what()));
  } catch (const std::exception& what) {
    log_error(fmt::format("an answer failed: {}", what.what()));
  }
  co_return false;
}

/// False: the client left, or the process ended (broke_).
net::awaitable<bool> Relay::pass_on(const Received& received) {
  if (!co_await send_header(received)) co_return false;
  std::array<char, kPieceBytes> piece;
  while (!parser_->is_done()) {
    auto& body = parser_->get().body();
    body.data = piece.data(), body.size = piece.size(), body.more = true;
    const auto [error, got] = co_await http::async_read_some(model_, buffer_, *parser_, kAwaitRelay);
    (void)got;
    const std::size_t bytes = piece.size() - body.size;
    if (bytes > 0 && !co_await send_bytes(received, {piece.data(), bytes})) co_return false;
    if (error && error != http::error::need_buffer) {
      broke_ = true;
      if (error != net::error::operation_aborted) server_context_.front->doubt(*lease_);
      co_await tell_of_end(received);
      co_return false;
    }
  }
  if (!parser_->chunked() || received.version < 11) co_return received.version >= 11 || !parser_->chunked();
  const auto [error, bytes] = co_await net::async_write(client_, http::make_chunk_last(), kAwaitRelay);
  (void)bytes;
  co_return !error;
}

net::awaitable<bool> Relay::send_header(const Received& received) {
  const auto& given = parser_->get();
  http::response<http::empty_body> header(given.result(), received.version);
  header.result(given.result_int());
  header.set(http::field::server, "foretoken");
  for (const auto& field : given) {
    if (passes_on(field.name_string())) header.insert(field.name_string(), field.value());
  }
  for (const auto& [name, value] : server_context_.router.standing_headers(received.http_request))
    header.set(name, value);
  const bool chunked = parser_->chunked();
  header.keep_alive(received.keep_alive && (received.version >= 11 || !chunked) && !server_context_.stopping);
  if (chunked && received.version >= 11) header.chunked(true);
  if (!chunked && parser_->content_length()) header.content_length(*parser_->content_length());
  http::response_serializer<http::empty_body> serializer(header);
  client_.expires_after(std::chrono::milliseconds(server_context_.options.write_ms));
  if (ahead_.any()) co_return co_await ahead_.finish_header(client_, serializer);
  const auto [error, bytes] = co_await http::async_write_header(client_, serializer, kAwaitRelay);
  (void)bytes;
  co_return !error;
}

net::awaitable<bool> Relay::send_bytes(const Received& received, std::string_view bytes) {
  client_.expires_after(std::chrono::milliseconds(server_context_.options.write_ms));
  const net::const_buffer piece = net::buffer(bytes);
  if (parser_->chunked() && received.version >= 11) {
    const auto [error, sent] = co_await net::async_write(client_, http::make_chunk(piece), kAwaitRelay);
    (void)sent;
    co_return !error;
  }
  const auto [error, sent] = co_await net::async_write(client_, piece, kAwaitRelay);
  (void)sent;
  co_return !error;
}

/// The last frame of a stream; the connection then closes without the stream's end.
net::awaitable<void> Relay::tell_of_end(const Received& received) {
  if (!is_event_stream(parser_->get()[http::field::content_type])) co_return;
  const HttpRequest& http_request = received.http_request;
  const std::string body =
      process_ended(http_request, server_context_.front->pool().at(lease_->model()).id).body;
  const bool anthropic = http_request.dialect() == api::Dialect::kAnthropic;
  (void)co_await send_bytes(received, (anthropic ? "event: error\ndata: " : "data: ") + body + "\n\n");
}

/// Returns when the client has left. Its next request stays unread.
net::awaitable<void> Relay::until_left(bool sends) {
  net::ip::tcp::socket& socket = beast::get_lowest_layer(client_).socket();
  net::steady_timer timer(client_.get_executor());
  for (;;) {
    (void)co_await socket.async_wait(net::ip::tcp::socket::wait_read, kAwaitRelay);
    char byte = 0;
    const ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN && errno != EINTR) co_return;
    if (got == 0 || has_hung_up(socket.native_handle())) co_return co_await ahead_.until_left(sends);
    if (got > 0) {
      timer.expires_after(SendAhead::kLookAgain);
      (void)co_await timer.async_wait(kAwaitRelay);
    }
  }
}

}  // namespace ft::server
