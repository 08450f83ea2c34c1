#include "server/send_ahead.h"

#include <algorithm>

namespace ft::server {

namespace net = boost::asio;
using net::awaitable;

bool SendAhead::next() {
  if (sent_ == kBytes.size()) return true;
  boost::system::error_code failed;
  (void)socket_.non_blocking(true, failed);
  const std::size_t sent = socket_.send(net::buffer(kBytes.substr(sent_, 1)), 0, failed);
  if (!failed) sent_ += sent;
  return !failed || failed == net::error::would_block;
}

awaitable<bool> SendAhead::client_reads() {
  constexpr Milliseconds kUsualReply{100};
  if (has_left(socket_.native_handle()) || !next()) co_return false;
  net::steady_timer timer(socket_.get_executor(), kUsualReply);
  (void)co_await timer.async_wait(kAwait);
  co_return !has_left(socket_.native_handle());
}

awaitable<void> SendAhead::until_left(bool sends) {
  keep_asking(socket_.native_handle());
  net::steady_timer timer(socket_.get_executor());
  Milliseconds waited{0}, due{0};
  while (!has_left(socket_.native_handle())) {
    if (sends && waited >= due) {
      if (!next()) co_return;
      due = std::max(2 * due, kPause);
    }
    timer.expires_after(kLookAgain);
    (void)co_await timer.async_wait(kAwait);
    waited += kLookAgain;
  }
}

}  // namespace ft::server
