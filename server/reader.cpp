#include "server/reader.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "api/choice.h"
#include "api/error_reply.h"
#include "api/fields.h"
#include "base/utf8.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr std::size_t kMaxIdBytes = 128;

using Parser = http::request_parser<http::string_body>;

/// What `operation` gives, or a timeout after `patience`; the connection lives on and can be answered.
net::awaitable<beast::error_code> within(
    std::chrono::milliseconds patience, net::any_io_executor executor,
    net::awaitable<std::tuple<beast::error_code, std::size_t>> operation) {
  using namespace net::experimental::awaitable_operators;
  net::steady_timer timer(executor);
  timer.expires_after(patience);
  const auto first = co_await (std::move(operation) || timer.async_wait(kAwait));
  co_return first.index() == 0 ? std::get<0>(std::get<0>(first)) : beast::error_code(beast::error::timeout);
}

/// What may go back into a header field.
std::string safe_id(std::string_view id) {
  bool good = !id.empty() && id.size() <= kMaxIdBytes;
  for (const char c : id) good = good && c > ' ' && c < 0x7F;
  return good ? std::string(id) : api::random_id("req_");
}

void take_head(const Parser& parser, Incoming& incoming) {
  const auto& head = parser.get();
  incoming.method = std::string(head.method_string());
  const std::string_view target(head.target().data(), head.target().size());
  const std::size_t query = target.find('?');
  incoming.path = percent_decoded(target.substr(0, query));
  if (query != std::string_view::npos) incoming.query = std::string(target.substr(query + 1));
  for (const auto& field : head) {
    incoming.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  incoming.id = safe_id(incoming.header("x-request-id"));
}

Received refused(Received received, const Error& error, int status) {
  received.kind = Received::Kind::kRefused;
  received.keep_alive = false;
  if (received.incoming.id.empty()) received.incoming.id = api::random_id("req_");
  received.refusal = api::error_reply(received.incoming.dialect(), error, received.incoming.id, status);
  return received;
}

Received refused_for(Received received, const beast::error_code& error, bool in_head) {
  if (error == http::error::end_of_stream || error == net::error::operation_aborted) return received;
  if (error == beast::error::timeout) {
    return refused(std::move(received),
                   {Code::kInvalid, in_head ? "the head of the request took too long"
                                            : "the body of the request took too long"},
                   408);
  }
  if (error == http::error::header_limit) {
    return refused(std::move(received),
                   {Code::kInvalid, fmt::format("the head is larger than {} bytes", kMaxHeadBytes)}, 431);
  }
  if (error == http::error::body_limit) {
    return refused(std::move(received),
                   {Code::kInvalid, fmt::format("the body is larger than {} bytes", api::kMaxBodyBytes)},
                   413);
  }
  if (error.category() == http::make_error_code(http::error::bad_method).category()) {
    return refused(std::move(received), {Code::kInvalid, "this is no HTTP request: " + error.message()}, 400);
  }
  return received;  // the connection broke
}

}  // namespace

net::awaitable<Received> read_request(beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                      const ServerOptions& options) {
  using std::chrono::milliseconds;
  Received received;
  if (buffer.size() == 0) {  // idle until the first byte
    stream.expires_after(milliseconds(options.idle_ms));
    const auto [error, bytes] = co_await stream.async_read_some(buffer.prepare(4096), kAwait);
    if (error) co_return received;
    buffer.commit(bytes);
  }
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(kMaxHeadBytes));
  parser.body_limit(api::kMaxBodyBytes);
  stream.expires_never();
  const beast::error_code head_error =
      co_await within(milliseconds(options.head_ms), stream.get_executor(),
                      http::async_read_header(stream, buffer, parser, kAwait));
  // A body that is announced to be too long is refused with the head known, in its client's dialect.
  if (parser.is_header_done() || head_error == http::error::body_limit) {
    take_head(parser, received.incoming);
  }
  if (head_error) co_return refused_for(std::move(received), head_error, true);
  received.version = parser.get().version();
  if (same_name(received.incoming.header("expect"), "100-continue")) {
    const http::response<http::empty_body> go_on(http::status::continue_, 11);
    stream.expires_after(milliseconds(options.write_ms));
    const auto [error, bytes] = co_await http::async_write(stream, go_on, kAwait);
    (void)bytes;
    if (error) co_return received;
    stream.expires_never();
  }
  const beast::error_code body_error = co_await within(milliseconds(options.body_ms), stream.get_executor(),
                                                       http::async_read(stream, buffer, parser, kAwait));
  if (body_error) co_return refused_for(std::move(received), body_error, false);
  received.keep_alive = parser.get().keep_alive();
  received.incoming.body = std::move(parser.get().body());
  if (!utf8_valid(received.incoming.body)) {
    const bool keep = received.keep_alive;
    received = refused(std::move(received),
                       {Code::kInvalid, "the body is not UTF-8; encode it before sending"}, 400);
    received.keep_alive = keep;
    co_return received;
  }
  received.kind = Received::Kind::kRequest;
  co_return received;
}

}  // namespace ft::server
