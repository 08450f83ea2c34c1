#include "server/reader.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <memory>

#include "api/choice.h"
#include "api/error_reply.h"
#include "api/fields.h"
#include "base/ascii.h"
#include "server/framing.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using std::chrono::milliseconds;

constexpr auto kAwaitBytes = net::as_tuple(net::use_awaitable);
constexpr std::size_t kMaxIdBytes = 128;
constexpr std::size_t kReadBytes = 4096;  // buffer of an idle connection
const beast::error_code kNoRoom = make_error_code(boost::system::errc::no_buffer_space);

using Parser = http::request_parser<http::string_body>;

/// Cancels the stream's reads after `patience`. Unlike the stream's own timeout it leaves the socket open, so
/// that the client can be answered.
class Deadline {
 public:
  Deadline(beast::tcp_stream& stream, milliseconds patience)
      : state_(std::make_shared<State>(stream, patience)) {
    state_->timer.async_wait([state = state_](const beast::error_code& error) {
      if (error || state->over) return;
      state->passed = true;
      state->stream.cancel();
    });
  }
  ~Deadline() {
    state_->over = true;
    state_->timer.cancel();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  bool passed() const { return state_->passed; }

 private:
  struct State {
    State(beast::tcp_stream& read, milliseconds patience)
        : stream(read), timer(read.get_executor(), patience) {}
    beast::tcp_stream& stream;
    net::steady_timer timer;
    bool passed = false, over = false;
  };
  std::shared_ptr<State> state_;  // the timer's handler may outlive the deadline
};

/// The id if it is safe in a header field, else a new one.
std::string safe_id(std::string_view id) {
  bool good = !id.empty() && id.size() <= kMaxIdBytes;
  for (const char c : id) good = good && c > ' ' && c < 0x7F;
  return good ? std::string(id) : api::random_id("req_");
}

/// An absolute-form target (http://host/path) becomes its path; its host then replaces the Host header (RFC
/// 9112 section 3.2.2). Empty for a path.
std::string_view take_authority(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() <= scheme.size() || !same_name(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
    target = end == rest.size() ? std::string_view("/") : rest.substr(end);
    return rest.substr(0, end);
  }
  return {};
}

void take_head(const Parser& parser, Received& received) {
  const auto& head = parser.get();
  HttpRequest& http_request = received.http_request;
  http_request.method = std::string(head.method_string());
  std::string_view target(head.target().data(), head.target().size());
  const std::string_view authority = take_authority(target);
  const std::size_t query = target.find('?');
  http_request.path = percent_decoded(target.substr(0, query));
  if (query != std::string_view::npos) http_request.query = std::string(target.substr(query + 1));
  for (const auto& field : head) {
    http_request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    std::string& value = http_request.headers.back().second;
    if (!authority.empty() && same_name(field.name_string(), "host")) value = authority;
  }
  if (!authority.empty() && head.version() < 11 && http_request.header("host").empty())
    http_request.headers.emplace_back("Host", std::string(authority));
  http_request.id = safe_id(http_request.header("x-request-id"));
  received.version = head.version();
  received.has_body = !parser.is_done();
}

/// The connection ends after the reply because the start of the next request is unknown.
void refuse(Received& received, const Error& error, int status) {
  received.kind = Received::Kind::kRefused;
  received.keep_alive = false;
  if (received.http_request.id.empty()) received.http_request.id = api::random_id("req_");
  received.refusal =
      api::error_reply(received.http_request.dialect(), error, received.http_request.id, status);
  if (status == 503) received.refusal.headers.emplace_back("Retry-After", "1");
}

void refuse_for(Received& received, const beast::error_code& error, bool in_head) {
  received.kind = Received::Kind::kGone;
  const char* part = in_head ? "head" : "body";
  if (error == http::error::end_of_stream) return;
  if (error == beast::error::timeout) {
    return refuse(received,
                  {Code::kInvalid, fmt::format("the request {} took too long; send it faster", part)}, 408);
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    const char* what = in_head ? "the request header is" : "a chunk's extension or the trailers are";
    return refuse(received,
                  {Code::kInvalid,
                   fmt::format("{} larger than {} bytes; make it smaller", what, kMaxRequestHeaderBytes)},
                  431);
  }
  if (error == http::error::body_limit) {
    const std::string words =
        fmt::format("the body is larger than {} bytes; make it smaller", api::kMaxBodyBytes);
    return refuse(received, {Code::kInvalid, words}, 413);
  }
  if (error == kNoRoom) {
    return refuse(received, {Code::kCancelled, "too many large bodies are being received; try again"}, 503);
  }
  if (error.category() == http::make_error_code(http::error::bad_method).category()) {
    refuse(received, {Code::kInvalid, "this is not an HTTP request: " + error.message()}, 400);
  }  // otherwise the connection failed
}

}  // namespace

RequestReader::RequestReader(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                             const ServerOptions& options, BodyBudget& bodies)
    : stream_(stream), buffer_(buffer), options_(options), bodies_(bodies) {
  parser_.header_limit(static_cast<std::uint32_t>(kMaxRequestHeaderBytes));
  parser_.body_limit(api::kMaxBodyBytes);
}

/// False if no byte arrived in time.
net::awaitable<bool> RequestReader::first_byte() {
  if (buffer_.size() > 0) co_return true;
  if (buffer_.capacity() > kReadBytes) buffer_.shrink_to_fit();
  stream_.expires_after(milliseconds(options_.idle_ms));
  const auto [error, bytes] = co_await stream_.async_read_some(buffer_.prepare(kReadBytes), kAwaitBytes);
  if (!error) buffer_.commit(bytes);
  co_return !error;
}

/// Passes the buffer to the parser. need_more: the parser needs more bytes to continue.
beast::error_code RequestReader::feed(BodyBudget::Share* share) {
  beast::error_code error;
  buffer_.consume(parser_.put(buffer_.data(), error));
  if (error && error != http::error::need_more) return error;
  if (share != nullptr && !share->grow_to(parser_.get().body().size())) return kNoRoom;
  return {};
}

/// Reads until the request header or the whole request is available. The library's own read is not used
/// because its exceptions end the I/O thread; exceptions here end only the connection.
net::awaitable<beast::error_code> RequestReader::advance(bool whole, milliseconds patience,
                                                         BodyBudget::Share* share) {
  const Deadline deadline(stream_, patience);
  stream_.expires_never();
  parser_.eager(whole);
  for (;;) {
    if (buffer_.size() > 0) {
      if (const beast::error_code error = feed(share)) co_return error;
    }
    if (whole ? parser_.is_done() : parser_.is_header_done()) co_return beast::error_code();
    const std::size_t room = buffer_.max_size() - buffer_.size();
    if (room == 0) co_return http::error::buffer_overflow;
    const std::size_t wanted = whole ? kMaxRequestHeaderBytes : kReadBytes;
    const auto [error, bytes] =
        co_await stream_.async_read_some(buffer_.prepare(std::min(room, wanted)), kAwaitBytes);
    if (deadline.passed()) co_return beast::error::timeout;
    if (error == net::error::eof) {
      co_return parser_.got_some() ? http::error::partial_message : http::error::end_of_stream;
    }
    if (error) co_return error;
    buffer_.commit(bytes);
  }
}

net::awaitable<Received> RequestReader::read_header() {
  Received received;
  if (!co_await first_byte()) co_return received;
  const beast::error_code error = co_await advance(false, milliseconds(options_.header_ms), nullptr);
  // A body that is announced as too long is refused after the request header is known, in the client's
  // dialect.
  if (parser_.is_header_done() || error == http::error::body_limit) take_head(parser_, received);
  if (error) {
    refuse_for(received, error, true);
    co_return received;
  }
  if (const std::optional<FramingFault> fault = framing_fault(received.http_request, received.version)) {
    refuse(received, {Code::kInvalid, fault->sentence}, fault->status);
    co_return received;
  }
  received.keep_alive = parser_.get().keep_alive();
  received.kind = Received::Kind::kRequest;
  co_return received;
}

/// Sends 100 Continue to a client that waits for it; false if the client has disconnected.
net::awaitable<bool> RequestReader::go_on() {
  const http::response<http::empty_body> response(http::status::continue_, 11);
  stream_.expires_after(milliseconds(options_.write_ms));
  const auto [error, bytes] = co_await http::async_write(stream_, response, kAwaitBytes);
  (void)bytes;
  co_return !error;
}

net::awaitable<void> RequestReader::body(Received& received) {
  if (parser_.is_done()) co_return;
  if (parser_.content_length().value_or(0) > bodies_.left()) {
    refuse_for(received, kNoRoom, false);
    co_return;
  }
  if (same_name(received.http_request.header("expect"), "100-continue") && !co_await go_on()) {
    received.kind = Received::Kind::kGone;
    co_return;
  }
  received.share = BodyBudget::Share(bodies_);
  const beast::error_code error = co_await advance(true, milliseconds(options_.body_ms), &received.share);
  if (error) {
    refuse_for(received, error, false);
  } else {
    received.http_request.body = std::move(parser_.get().body());
  }
}

}  // namespace ft::server
