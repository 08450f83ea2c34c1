#include "server/front/forwarded.h"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "api/error_reply.h"
#include "base/ascii.h"
#include "server/auth.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using net::awaitable;

constexpr auto kAwaitProcess = net::as_tuple(net::use_awaitable);
constexpr auto kConnect = std::chrono::seconds(5);
constexpr auto kShortReply = std::chrono::seconds(60);

/// Fields of one connection (RFC 9110 section 7.6.1), and fields that the front checks.
constexpr std::array<std::string_view, 16> kOwnFields = {
    "host",   "connection",     "keep-alive",        "proxy-connection",
    "te",     "trailer",        "transfer-encoding", "upgrade",
    "expect", "content-length", "authorization",     "x-api-key",
    "origin", "cookie",         "x-request-id",      kCallerHeader};
constexpr std::array<std::string_view, 8> kReplyFields = {"connection",     "keep-alive", "transfer-encoding",
                                                          "content-length", "server",     "date",
                                                          "x-request-id",   "request-id"};

bool has(const auto& names, std::string_view field) {
  return std::ranges::any_of(names, [&](std::string_view name) { return same_name(name, field); });
}

}  // namespace

http::request<http::string_body> forwarded(HttpRequest& http_request, const std::string& secret) {
  std::string target = percent_encoded(http_request.path, true);
  if (!http_request.query.empty()) target += "?" + http_request.query;
  http::request<http::string_body> request(http::verb::get, target, 11);
  request.method_string(http_request.method == "HEAD" ? "GET" : http_request.method);
  for (const auto& [name, value] : http_request.headers) {
    if (!has(kOwnFields, name)) request.insert(name, value);
  }
  request.set(http::field::host, "127.0.0.1");
  request.set(http::field::connection, "close");
  request.set(http::field::authorization, "Bearer " + secret);
  request.set(kCallerHeader, caller_text(http_request.caller));
  request.set("x-request-id", http_request.id);
  request.body() = std::move(http_request.body);
  if (http_request.method == "POST") request.content_length(request.body().size());
  return request;
}

bool passes_on(std::string_view field) { return !has(kReplyFields, field); }

api::HttpResponse process_ended(const HttpRequest& http_request, const std::string& model) {
  constexpr int kProcessGone = 503;
  api::HttpResponse reply = api::error_reply(
      http_request.dialect(),
      {Code::kIo, fmt::format("the process of {} ended during this request; it is started again, so send the "
                              "request again",
                              model)},
      http_request.id, kProcessGone);
  reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

awaitable<bool> connect(beast::tcp_stream& stream, const Front::Lease& lease) {
  stream.expires_after(kConnect);
  const net::ip::tcp::endpoint place(net::ip::address_v4::loopback(),
                                     static_cast<net::ip::port_type>(lease.port()));
  const auto [error] = co_await stream.async_connect(place, kAwaitProcess);
  if (error) {
    stream.close();
    co_return false;
  }
  beast::error_code ignored;
  (void)beast::get_lowest_layer(stream).socket().set_option(net::ip::tcp::no_delay(true), ignored);
  stream.expires_never();
  co_return true;
}

awaitable<api::HttpResponse> ask(Front& front, const Front::Lease& lease, const HttpRequest& http_request,
                                 net::any_io_executor executor) {
  const std::string& model = front.pool().at(lease.model()).id;
  beast::tcp_stream stream(executor);
  if (!co_await connect(stream, lease)) co_return process_ended(http_request, model);
  HttpRequest copy = http_request;
  const http::request<http::string_body> request = forwarded(copy, front.options().secret);
  stream.expires_after(kShortReply);
  const auto [failed, sent] = co_await http::async_write(stream, request, kAwaitProcess);
  (void)sent;
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  const auto [error, got] = co_await http::async_read(stream, buffer, response, kAwaitProcess);
  (void)got;
  if (failed || error) co_return process_ended(http_request, model);
  api::HttpResponse reply;
  reply.status = static_cast<int>(response.result_int());
  reply.type = std::string(response[http::field::content_type]);
  for (const auto& field : response) {
    const std::string_view name = field.name_string();
    if (passes_on(name) && !same_name(name, "content-type"))
      reply.headers.emplace_back(std::string(name), std::string(field.value()));
  }
  reply.body = std::move(response.body());
  co_return reply;
}

}  // namespace ft::server
