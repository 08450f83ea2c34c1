// One connection: serves requests in sequence, each within its limits, as a whole answer or a stream. The
// socket is watched during decoding, so that a disconnect cancels the answer at once, even during a long
// prompt. A client that only closes its sending side gets its answer (server/send_ahead.h). The coroutine
// owns itself and runs on the I/O thread. Errors are sent while the client can receive them, and dropped
// otherwise.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "server/server_context.h"

namespace ft::server {

boost::asio::awaitable<void> serve_connection(boost::asio::ip::tcp::socket socket,
                                              ServerContext& server_context);

}  // namespace ft::server
