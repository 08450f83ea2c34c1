// RequestReader: reads the requests of a connection, first the request header within its time and size
// limits, so that the router can check it, then the body. Everything between two bodies (request headers,
// chunk sizes, trailers) fits kMaxRequestHeaderBytes; trailers are discarded. Use it on the I/O thread. An
// error is a reply to send before closing, or kGone if the client has disconnected.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>

#include "server/body_budget.h"
#include "server/http_request.h"
#include "server/options.h"

namespace ft::server {

struct Received {
  enum class Kind { kRequest, kRefused, kGone };
  Kind kind = Kind::kGone;
  HttpRequest http_request;
  api::HttpResponse refusal;  // for kRefused
  bool keep_alive = false;
  bool has_body = false;  // announced by the request header
  unsigned version = 11;
  BodyBudget::Share share;  // for http_request.body
};

/// Reads one request; the next request needs a new reader.
class RequestReader {
 public:
  /// All arguments must outlive the reader. The limit of `buffer` is kMaxRequestHeaderBytes.
  RequestReader(boost::beast::tcp_stream& stream, boost::beast::flat_buffer& buffer,
                const ServerOptions& options, BodyBudget& bodies);

  boost::asio::awaitable<Received> read_header();
  /// Adds the body to the result of read_header().
  boost::asio::awaitable<void> body(Received& received);

 private:
  boost::asio::awaitable<bool> first_byte();
  boost::asio::awaitable<bool> go_on();
  boost::asio::awaitable<boost::beast::error_code> advance(bool whole, std::chrono::milliseconds patience,
                                                           BodyBudget::Share* share);
  boost::beast::error_code feed(BodyBudget::Share* share);

  boost::beast::tcp_stream& stream_;
  boost::beast::flat_buffer& buffer_;
  const ServerOptions& options_;
  BodyBudget& bodies_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
};

}  // namespace ft::server
