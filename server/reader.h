// Reads one request from a connection: the head within its time and size, then the body. Thread: the I/O
// thread. Errors: as a reply to send before the connection is closed, or nobody is there any more.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>

#include "server/incoming.h"
#include "server/options.h"

namespace ft::server {

struct Received {
  enum class Kind { kRequest, kRefused, kGone };
  Kind kind = Kind::kGone;
  Incoming incoming;
  api::Reply refusal;  // of kRefused
  bool keep_alive = false;
  unsigned version = 11;
};

boost::asio::awaitable<Received> read_request(boost::beast::tcp_stream& stream,
                                              boost::beast::flat_buffer& buffer,
                                              const ServerOptions& options);

}  // namespace ft::server
