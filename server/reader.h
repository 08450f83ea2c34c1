// Reads the requests of a connection: the head within its time and size, so that it can be judged, then the
// body. Everything between two bodies (heads, chunk sizes, trailers) fits kMaxHeadBytes; trailers are not
// kept. Thread: the I/O thread. Errors: as a reply to send before the connection is closed, or nobody is
// there any more.
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
  api::HttpResponse refusal;  // of kRefused
  bool keep_alive = false;
  bool has_body = false;  // announced by the head
  unsigned version = 11;
  BodyBudget::Share share;  // of incoming.body
};

/// One request; a new reader for the next one.
class RequestReader {
 public:
  /// All must outlive the reader. `buffer`'s limit is kMaxHeadBytes.
  RequestReader(boost::beast::tcp_stream& stream, boost::beast::flat_buffer& buffer,
                const ServerOptions& options, BodyBudget& bodies);

  boost::asio::awaitable<Received> head();
  /// Completes what head() gave.
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
