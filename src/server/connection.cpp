#include "server/connection.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include "api/error_reply.h"
#include "api/fields.h"
#include "base/log.h"
#include "base/peer.h"
#include "base/system.h"
#include "server/front/relay.h"
#include "server/reader.h"
#include "server/routes.h"
#include "server/send_ahead.h"
#include "server/server_context.h"
#include "server/wake_event.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using net::awaitable;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr int kSendBytes = 256 << 10;                       // kernel buffer for a client that does not read
constexpr std::size_t kFrameBytes = std::size_t{64} << 10;  // max bytes of a stream in one write
/// Pause between two writes of a stream. A hundred writes per second look smooth, and each write takes a core
/// from the decoder for as long as a small model's round. The first token and the end are never delayed.
constexpr milliseconds kPace{10};
constexpr milliseconds kGather{50};  // between two reads of the mailbox of a whole answer

class Connection {
 public:
  Connection(net::ip::tcp::socket socket, ServerContext& server_context)
      : server_context_(server_context), stream_(std::move(socket)) {
    server_context_.app.http().connections(++server_context_.connections);
    beast::error_code error;
    const auto here = beast::get_lowest_layer(stream_).socket().local_endpoint(error);
    if (!error) here_ = here.address().to_string();
  }
  ~Connection() { server_context_.app.http().connections(--server_context_.connections); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  awaitable<void> run();

 private:
  struct Running {
    std::vector<Ticket> tickets;
    std::vector<bool> ended;
    std::shared_ptr<WakeEvent> wake;
    api::Exchange exchange;
    std::string id;
    int tokens = 0;
    bool failed = false;
    bool all_ended() const { return std::find(ended.begin(), ended.end(), false) == ended.end(); }
  };

  awaitable<Received> next();
  awaitable<bool> serve(Received& received, AccessLine& line);
  awaitable<Answer> answer(const HttpRequest& http_request);
  Answer route(const HttpRequest& http_request) const;
  awaitable<bool> contained(Running& running, awaitable<bool> work);
  awaitable<bool> send(const Received& received, api::HttpResponse reply, AccessLine& line);
  awaitable<bool> decode(const Received& received, api::Exchange exchange, AccessLine& line);
  std::optional<api::HttpResponse> submit(const Received& received, Running& running);
  awaitable<void> watch(Running& running);
  awaitable<bool> gather(Running& running);
  awaitable<bool> stream(const Received& received, Running& running);
  awaitable<bool> send_stream_head(const Received& received, const api::Notes& notes);
  awaitable<bool> send_frames(const Received& received, const std::string& frames);
  void drain(Running& running, std::string& frames);
  awaitable<void> close();

  ServerContext& server_context_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kMaxRequestHeaderBytes};
  std::string here_;  // the connection's local address
  SendAhead ahead_{beast::get_lowest_layer(stream_).socket()};
  bool half_closed_ = false;  // during an answer: the client has sent its last byte
};

awaitable<void> Connection::run() {
  bool keep_alive = true;
  while (keep_alive && !server_context_.stopping) {
    Received received = co_await next();
    if (received.kind == Received::Kind::kGone) break;
    const Clock::time_point start = Clock::now();
    AccessLine line;
    keep_alive = co_await serve(received, line);
    line.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    server_context_.log.write(received.http_request, line);
    server_context_.app.http().answered(route_of(received.http_request.path), line.status);
  }
  co_await close();
}

/// A refused request header is answered without reading the body; the connection then ends if there is a
/// body. The same applies to a method that takes no body.
awaitable<Received> Connection::next() {
  RequestReader reader(stream_, buffer_, server_context_.options, server_context_.bodies);
  Received received = co_await reader.read_header();
  received.http_request.here = here_;
  if (received.kind != Received::Kind::kRequest) co_return received;
  if (std::optional<api::HttpResponse> refusal =
          server_context_.router.check_request(received.http_request)) {
    received.kind = Received::Kind::kRefused;
    received.refusal = std::move(*refusal);
    received.keep_alive = received.keep_alive && !received.has_body;
  } else if (received.http_request.method == "POST") {
    co_await reader.body(received);
  } else if (received.has_body) {
    received.keep_alive = false;
  }
  co_return received;
}

awaitable<bool> Connection::serve(Received& received, AccessLine& line) {
  if (received.kind == Received::Kind::kRefused) {
    co_return co_await send(received, std::move(received.refusal), line);
  }
  if (server_context_.front != nullptr) {
    Relay relay(stream_, ahead_, server_context_);
    Relay::Outcome outcome = co_await relay.run(received, line);
    if (auto* reply = std::get_if<api::HttpResponse>(&outcome))
      co_return co_await send(received, std::move(*reply), line);
    co_return std::get<bool>(outcome);
  }
  Answer given = co_await answer(received.http_request);
  received.http_request.body = std::string();  // the body and its share of the budget end here
  received.share = BodyBudget::Share();
  if (auto* reply = std::get_if<api::HttpResponse>(&given)) {
    co_return co_await send(received, std::move(*reply), line);
  }
  co_return co_await decode(received, std::get<api::Exchange>(std::move(given)), line);
}

Answer Connection::route(const HttpRequest& http_request) const {
  try {
    return server_context_.router.route(http_request);
  } catch (const std::exception& what) {
    log_error(fmt::format("a request failed: {}", what.what()));
    return api::error_reply(http_request.dialect(),
                            {Code::kIo, "internal server error; see the server's log"}, http_request.id);
  }
}

/// GET runs at once; POST runs on the text lanes because rendering and encoding take time. Nothing is done
/// for a client that left while it waited for its lane. A client that closed its sending side is tested
/// first, then waits for its lane again.
awaitable<Answer> Connection::answer(const HttpRequest& http_request) {
  if (http_request.method != "POST") co_return route(http_request);
  const TextLanes::Lane lane =
      co_await server_context_.text.lane_of(http_request, server_context_.app.model_info());
  std::optional<Answer> given;
  const int socket = beast::get_lowest_layer(stream_).socket().native_handle();
  bool asks = false;
  half_closed_ = false;
  co_await server_context_.text.run(lane, [&] {
    asks = has_hung_up(socket);
    if (!asks) given = route(http_request);
  });
  if (asks && co_await ahead_.client_reads()) {
    co_await server_context_.text.run(lane, [&] {
      if (!has_left(socket)) given = route(http_request);
    });
  }
  if (given) co_return std::move(*given);
  co_return api::error_reply(http_request.dialect(), {Code::kCancelled, "the request was not begun"},
                             http_request.id);
}

/// An exception ends its answer; without this, the parallel watch() would wait for the client.
awaitable<bool> Connection::contained(Running& running, awaitable<bool> work) {
  try {
    co_return co_await std::move(work);
  } catch (const boost::system::system_error& error) {
    if (error.code() == net::error::operation_aborted) co_return false;  // the client left
    log_error(fmt::format("an answer failed: {}", error.what()));
  } catch (const std::exception& what) {
    log_error(fmt::format("an answer failed: {}", what.what()));
  }
  running.failed = true;
  co_return false;
}

awaitable<bool> Connection::send(const Received& received, api::HttpResponse reply, AccessLine& line) {
  const bool has_body = reply.status != 204 && reply.status != 304;
  http::response<http::string_body> response(static_cast<http::status>(reply.status), received.version);
  response.set(http::field::server, "foretoken");
  if (!reply.type.empty()) response.set(http::field::content_type, reply.type);
  for (const auto& [name, value] : server_context_.router.standing_headers(received.http_request))
    response.set(name, value);
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  const bool keep_alive = received.keep_alive && !server_context_.stopping;
  response.keep_alive(keep_alive);
  line.status = reply.status;
  const std::size_t size = reply.body.size();
  if (received.http_request.method != "HEAD") response.body() = std::move(reply.body);
  if (has_body) response.content_length(size);
  stream_.expires_after(milliseconds(server_context_.options.write_ms));
  http::response_serializer<http::string_body> serializer(response);
  if (received.http_request.method == "HEAD") {
    const auto [error, bytes] = co_await http::async_write_header(stream_, serializer, kAwait);
    (void)bytes;
    co_return !error && keep_alive;
  }
  if (ahead_.any() && !co_await ahead_.finish_header(stream_, serializer)) {
    line.note = "client left";
    co_return false;
  }
  const auto [error, bytes] = co_await http::async_write(stream_, serializer, kAwait);
  (void)bytes;
  if (error) line.note = "client left";
  co_return !error && keep_alive;
}

/// Submits the requests to the engine; an error response if the engine refuses one.
std::optional<api::HttpResponse> Connection::submit(const Received& received, Running& running) {
  EngineClient* engine = server_context_.app.engine();
  for (Request& request : running.exchange.requests) {
    Result<Ticket> ticket = engine->submit(std::move(request));
    if (!ticket.ok()) {
      return api::error_reply(received.http_request.dialect(), ticket.error(), received.http_request.id);
    }
    ticket->on_event([wake = running.wake](bool over) { wake->ring(over); });
    running.tickets.push_back(std::move(*ticket));
  }
  running.ended.assign(running.tickets.size(), false);
  running.wake->ring(true);  // for events posted before the callback was set
  return std::nullopt;
}

awaitable<bool> Connection::decode(const Received& received, api::Exchange exchange, AccessLine& line) {
  using namespace net::experimental::awaitable_operators;
  Running running;
  running.exchange = std::move(exchange);
  running.wake = std::make_shared<WakeEvent>(stream_.get_executor());
  if (std::optional<api::HttpResponse> refusal = submit(received, running)) {
    co_return co_await send(received, std::move(*refusal), line);
  }
  const bool streams = running.exchange.stream;
  running.id = running.exchange.writer->id();
  line.status = 200;
  std::optional<App::Registered> registered;
  registered.emplace(server_context_.app, running.id, received.http_request.caller,
                     [&running, wake = running.wake] {
                       for (Ticket& ticket : running.tickets) ticket.cancel();
                       wake->ring(true);
                     });
  // The answer and the connection watch: the one that ends first cancels the other.
  const auto first = streams ? co_await (contained(running, stream(received, running)) || watch(running))
                             : co_await (contained(running, gather(running)) || watch(running));
  registered.reset();
  if (running.failed) {
    line.status = 500, line.note = "failed";
    co_return false;
  }
  const bool left = first.index() == 1 || !std::get<0>(first);
  line.note = fmt::format("{} tokens{}", running.tokens, left ? ", client left" : "");
  if (left) {
    line.status = 499;
    co_return false;
  }
  if (streams) co_return received.keep_alive&& received.version >= 11 && !server_context_.stopping;
  const std::string note = line.note;
  api::HttpResponse reply = running.exchange.writer->reply();
  for (auto& field : running.exchange.notes.headers()) reply.headers.push_back(std::move(field));
  const bool keep_alive = co_await send(received, std::move(reply), line);
  line.note = note;
  co_return keep_alive;
}

/// Returns when the client has disconnected. Bytes of its next request are left unread; while they wait, only
/// a closed connection is noticed. A stream to a half-closed client has frames without content to send.
awaitable<void> Connection::watch(Running& running) {
  net::ip::tcp::socket& socket = beast::get_lowest_layer(stream_).socket();
  net::steady_timer timer(stream_.get_executor());
  for (;;) {
    (void)co_await socket.async_wait(net::ip::tcp::socket::wait_read, kAwait);
    char byte = 0;
    const ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN && errno != EINTR) co_return;
    if (got == 0 || has_hung_up(socket.native_handle())) {
      half_closed_ = true;
      running.wake->ring(false);
      co_return co_await ahead_.until_left(!running.exchange.stream);
    }
    if (got > 0) {
      timer.expires_after(SendAhead::kLookAgain);
      (void)co_await timer.async_wait(kAwait);
    }
  }
}

/// Takes the tickets' pending events, up to about kFrameBytes of frames.
void Connection::drain(Running& running, std::string& frames) {
  for (std::size_t i = 0; i < running.tickets.size(); ++i) {
    while (!running.ended[i] && frames.size() < kFrameBytes) {
      const std::optional<Event> event = running.tickets[i].try_next();
      if (!event) break;
      if (event->kind == Event::Kind::kToken) ++running.tokens;
      running.ended[i] = event->kind == Event::Kind::kEnd;
      running.exchange.writer->add(i, *event, frames);
    }
  }
}

awaitable<bool> Connection::gather(Running& running) {
  std::string unused;
  for (;;) {
    drain(running, unused);
    if (running.all_ended()) co_return true;
    unused.clear();
    (void)co_await running.wake->rest(kGather);
  }
}

awaitable<bool> Connection::send_stream_head(const Received& received, const api::Notes& notes) {
  http::response<http::empty_body> response(http::status::ok, received.version);
  response.set(http::field::server, "foretoken");
  response.set(http::field::content_type, "text/event-stream; charset=utf-8");
  response.set(http::field::cache_control, "no-cache");
  response.set("X-Accel-Buffering", "no");
  response.set("X-Speculation", "see the last frame");
  for (const auto& [name, value] : server_context_.router.standing_headers(received.http_request))
    response.set(name, value);
  for (const auto& [name, value] : notes.headers()) response.set(name, value);
  response.keep_alive(received.keep_alive && received.version >= 11 && !server_context_.stopping);
  if (received.version >= 11) response.chunked(true);
  http::response_serializer<http::empty_body> serializer(response);
  stream_.expires_after(milliseconds(server_context_.options.write_ms));
  if (ahead_.any()) co_return co_await ahead_.finish_header(stream_, serializer);
  const auto [error, bytes] = co_await http::async_write_header(stream_, serializer, kAwait);
  (void)bytes;
  co_return !error;
}

awaitable<bool> Connection::send_frames(const Received& received, const std::string& frames) {
  stream_.expires_after(milliseconds(server_context_.options.write_ms));
  if (received.version >= 11) {
    const auto [error, bytes] =
        co_await net::async_write(stream_, http::make_chunk(net::buffer(frames)), kAwait);
    (void)bytes;
    co_return !error;
  }
  const auto [error, bytes] = co_await net::async_write(stream_, net::buffer(frames), kAwait);
  (void)bytes;
  co_return !error;
}

awaitable<bool> Connection::stream(const Received& received, Running& running) {
  if (!co_await send_stream_head(received, running.exchange.notes)) co_return false;
  const milliseconds longest_pause(server_context_.options.keep_alive_ms);
  std::string frames;
  running.exchange.writer->begin(frames);
  Clock::time_point written = Clock::now();  // the last frame that the client counts
  bool probe = false;                        // the frames are only a comment
  for (;;) {
    drain(running, frames);
    const bool over = running.all_ended();
    if (over) running.exchange.writer->end(frames);
    if (!frames.empty() && !co_await send_frames(received, frames)) co_return false;
    if (over) break;
    if (!frames.empty() && !std::exchange(probe, false)) written = Clock::now();
    if (const std::size_t sent = std::exchange(frames, {}).size(); sent > 0) {
      const bool more = sent >= kFrameBytes;
      if (!more && running.tokens > 0) (void)co_await running.wake->rest(kPace);
      continue;
    }
    const milliseconds pause = half_closed_ ? std::min(longest_pause, SendAhead::kPause) : longest_pause;
    const bool rang = co_await running.wake->wait(pause);
    // Tokens may come without a frame, for example for a call that is written once it is whole.
    const bool quiet = Clock::now() - written >= longest_pause;
    probe = !rang && !quiet;
    if (quiet) running.exchange.writer->keep_alive(frames);
    if (probe) frames += ": \n\n";
  }
  if (received.version < 11) co_return true;
  const auto [error, bytes] = co_await net::async_write(stream_, http::make_chunk_last(), kAwait);
  (void)bytes;
  co_return !error;
}

/// Lets the client read the answer before the connection closes: unread bytes would cause a reset, which
/// discards the answer.
awaitable<void> Connection::close() {
  constexpr milliseconds kPatience{2000};
  beast::error_code ignored;
  net::ip::tcp::socket& socket = beast::get_lowest_layer(stream_).socket();
  (void)socket.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  buffer_.clear();
  stream_.expires_after(kPatience);
  for (std::size_t read = 0; read < api::kMaxBodyBytes;) {
    const auto [error, got] =
        co_await stream_.async_read_some(buffer_.prepare(kMaxRequestHeaderBytes), kAwait);
    if (error || got == 0) break;
    read += got;
  }
  (void)socket.close(ignored);
}

}  // namespace

awaitable<void> serve_connection(net::ip::tcp::socket socket, ServerContext& server_context) {
  beast::error_code ignored;
  (void)socket.set_option(net::ip::tcp::no_delay(true), ignored);
  (void)socket.set_option(net::socket_base::send_buffer_size(kSendBytes), ignored);
  try {
    Connection connection(std::move(socket), server_context);
    co_await connection.run();
  } catch (const std::exception& what) {
    log_error(fmt::format("a connection failed: {}", what.what()));
  }
}

}  // namespace ft::server
