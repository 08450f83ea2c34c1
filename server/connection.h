// One connection: requests one after another, each read within its limits, answered whole or as a stream.
// While an answer is decoded the socket is watched, so that a client that leaves, also during a long prompt,
// cancels it at once. A client that shuts down its sending side counts as gone. Owner: itself, a coroutine.
// Thread: the I/O thread. Cost: a few kB. Errors: answered where the client can still hear, else dropped.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "server/server_context.h"

namespace ft::server {

boost::asio::awaitable<void> serve_connection(boost::asio::ip::tcp::socket socket,
                                              ServerContext& server_context);

}  // namespace ft::server
