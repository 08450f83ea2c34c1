#include "server/client.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "server/http_request.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using ResponseParser = http::response_parser<http::string_body>;

/// Splits a growing body into lines.
class Lines {
 public:
  explicit Lines(const std::function<bool(std::string_view)>& take) : take_(take) {}

  /// Passes complete lines of `body` to the callback and removes them; false if the callback wants no more.
  bool feed(std::string& body) const {
    std::size_t at = 0;
    for (std::size_t end = body.find('\n'); end != std::string::npos; end = body.find('\n', at)) {
      std::string_view line = std::string_view(body).substr(at, end - at);
      at = end + 1;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!take_(line)) return false;
    }
    body.erase(0, at);
    return true;
  }
  /// Passes the rest of the answer, which has no newline.
  void finish(std::string& body) const {
    if (!body.empty()) (void)take_(body);
    body.clear();
  }

 private:
  const std::function<bool(std::string_view)>& take_;
};

/// One connection. Beast applies timeouts only to asynchronous calls, so each one is started and run to its
/// end.
class Wire {
 public:
  explicit Wire(std::string where) : where_(std::move(where)) {}

  Status connect(const std::string& host, const std::string& port, int ms);
  Status send(const http::request<http::string_body>& request, int ms);
  /// Reads the next part; an error, or whether the answer is complete.
  Result<bool> read(ResponseParser& parser, int ms);

 private:
  template <class Start>
  error_code wait(int ms, Start start) {
    error_code result;
    stream_.expires_after(std::chrono::milliseconds(ms));
    start([&result](const error_code& error, auto&&...) { result = error; });
    io_.restart();
    io_.run();
    return result;
  }
  Error failed(const char* doing, const error_code& error, int ms) const;

  const std::string where_;
  net::io_context io_{1};
  beast::tcp_stream stream_{io_};
  beast::flat_buffer buffer_;
};

Error Wire::failed(const char* doing, const error_code& error, int ms) const {
  if (error == beast::error::timeout) {
    return {Code::kIo, fmt::format("{} sent no data for {} ms while {}", where_, ms, doing)};
  }
  return {Code::kIo, fmt::format("{} failed while {}: {}", where_, doing, error.message())};
}

Status Wire::connect(const std::string& host, const std::string& port, int ms) {
  error_code error;
  net::ip::tcp::resolver resolver(io_);
  const auto places = resolver.resolve(host, port, error);
  if (error) return Error{Code::kIo, fmt::format("{}: unknown host ({}); check it", where_, error.message())};
  error = wait(ms, [&](auto done) { stream_.async_connect(places, done); });
  if (!error) return {};
  return Error{Code::kIo,
               fmt::format("cannot connect to {} ({}); start `foretoken serve`, or give another URL", where_,
                           error.message())};
}

Status Wire::send(const http::request<http::string_body>& request, int ms) {
  const error_code error = wait(ms, [&](auto done) { http::async_write(stream_, request, done); });
  if (error) return failed("receiving the request", error, ms);
  return {};
}

Result<bool> Wire::read(ResponseParser& parser, int ms) {
  const error_code error =
      wait(ms, [&](auto done) { http::async_read_some(stream_, buffer_, parser, done); });
  if (error == http::error::body_limit) {
    return Error{Code::kTooLong,
                 fmt::format("the answer of {} is longer than {} bytes", where_, kMaxAnswerBytes)};
  }
  if (error) return failed("answering", error, ms);
  return parser.is_done();
}

}  // namespace

std::string_view ClientResponse::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& field) { return same_name(field.first, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Result<Client> Client::make(const std::string& url, std::string api_key, ClientOptions options) {
  const auto wrong = [&](const char* why) {
    return Error{Code::kInvalid, fmt::format("\"{}\": {}; write it as http://127.0.0.1:8080", url, why)};
  };
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    return Error{Code::kUnsupported,
                 fmt::format("\"{}\": only http:// is supported; use the server's own http:// URL", url)};
  }
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  if (rest.find("://") != std::string_view::npos) return wrong("unsupported URL scheme");
  Client client;
  client.options_ = options, client.api_key_ = std::move(api_key);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  client.prefix_ = rest.substr(slash);
  while (client.prefix_.ends_with('/')) client.prefix_.pop_back();
  std::string_view place = rest.substr(0, slash);
  const std::size_t bracket = place.rfind(']');
  const std::size_t colon = place.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    client.port_ = place.substr(colon + 1);
    place = place.substr(0, colon);
  }
  if (place.starts_with('[') && place.ends_with(']')) place = place.substr(1, place.size() - 2);
  client.host_ = place;
  if (client.host_.empty()) return wrong("the host is missing");
  const bool digits = !client.port_.empty() && client.port_.size() <= 5 &&
                      client.port_.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(client.port_) > 65535) return wrong("the port must be a number up to 65535");
  const bool printable = std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (!printable) return wrong("invalid character in a URL");
  return client;
}

/// Host and port, in the form of a URL and the Host field.
std::string Client::authority() const {
  const bool six = host_.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", six ? "[" : "", host_, six ? "]" : "", port_);
}

std::string Client::url() const { return "http://" + authority() + prefix_; }

Result<ClientResponse> Client::exchange(const std::string& method, const std::string& path,
                                        const std::string& json,
                                        const std::function<bool(std::string_view)>& take) const {
  Wire wire(url());
  FT_TRY(wire.connect(host_, port_, options_.connect_ms));
  http::request<http::string_body> request(http::string_to_verb(method), prefix_ + path, 11);
  request.set(http::field::host, authority());
  request.set(http::field::user_agent, "foretoken");
  request.set(http::field::connection, "close");
  if (!api_key_.empty()) request.set(http::field::authorization, "Bearer " + api_key_);
  if (!json.empty()) request.set(http::field::content_type, "application/json");
  request.body() = json;
  request.prepare_payload();
  FT_TRY(wire.send(request, options_.silence_ms));
  ResponseParser parser;
  parser.body_limit(take ? boost::optional<std::uint64_t>()
                         : boost::optional<std::uint64_t>(kMaxAnswerBytes));
  const Lines lines(take);
  ClientResponse reply;
  for (bool whole = false; !whole;) {
    FT_ASSIGN(whole, wire.read(parser, options_.silence_ms));
    if (!parser.is_header_done() || !take || parser.get().result_int() != 200) continue;
    std::string& body = parser.get().body();
    if (!lines.feed(body)) break;
    if (whole) lines.finish(body);
    if (body.size() > kMaxAnswerLine) {
      return Error{Code::kTooLong,
                   fmt::format("a line in the answer of {} is longer than {} bytes", url(), kMaxAnswerLine)};
    }
  }
  reply.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) reply.headers.emplace_back(field.name_string(), field.value());
  if (!take || reply.status != 200) reply.body = std::move(parser.get().body());
  return reply;
}

}  // namespace ft::server
