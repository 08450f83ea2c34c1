// SendAhead: the first bytes of an answer, sent before the rest is known. They test whether a client that has
// sent its last byte still reads: a closed connection rejects them, while a client that only closed its
// sending side takes them as the beginning of its answer. A client that disconnects later is noticed at the
// next byte, and after the last one by TCP keep-alive, every half minute. Owner: server/connection.cpp, whose
// socket must outlive it. Thread: the I/O thread.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffer_traits.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/error.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "base/peer.h"

namespace ft::server {

class SendAhead {
 public:
  using Milliseconds = std::chrono::milliseconds;
  /// The first bytes of every answer, whatever its version and status.
  static constexpr std::string_view kBytes = "HTTP/1.";
  static constexpr Milliseconds kPause{1000};  // between the first two; each further pause is twice as long
  static constexpr Milliseconds kLookAgain{
      100};  // between two looks at a socket that shows nothing by itself

  explicit SendAhead(boost::asio::ip::tcp::socket& socket) : socket_(socket) {}

  bool any() const { return sent_ > 0; }
  /// Sends one more byte, if one is left. False if the client has left.
  bool next();
  /// Sends a byte and waits for a possible rejection. False if the client has left.
  boost::asio::awaitable<bool> client_reads();
  /// Returns when the client has left. `sends`: bytes are sent ahead meanwhile; otherwise the caller sends.
  boost::asio::awaitable<void> until_left(bool sends);
  /// Sends the rest of the answer's header, from the first byte that was not sent. False if the client left.
  template <typename Serializer>
  boost::asio::awaitable<bool> finish_header(auto& stream, Serializer& serializer);

 private:
  static constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

  boost::asio::ip::tcp::socket& socket_;
  std::size_t sent_ = 0;
};

template <typename Serializer>
boost::asio::awaitable<bool> SendAhead::finish_header(auto& stream, Serializer& serializer) {
  std::string text;
  boost::beast::error_code failed;
  serializer.split(true);
  while (!failed && !serializer.is_header_done()) {
    serializer.next(failed, [&](boost::beast::error_code& error, const auto& buffers) {
      error = {};
      text += boost::beast::buffers_to_string(buffers);
      serializer.consume(boost::beast::buffer_bytes(buffers));
    });
  }
  if (failed) co_return false;
  const auto rest = boost::asio::buffer(text) + std::exchange(sent_, 0);
  const auto [error, bytes] = co_await boost::asio::async_write(stream, rest, kAwait);
  (void)bytes;
  co_return !error;
}

}  // namespace ft::server
