// WakeEvent: wakes a coroutine of the I/O thread from another thread. ring() makes no system call while no
// coroutine waits. A stream waits for events; between two writes it rests, and then only the end wakes it.
// Ownership is shared because an event may arrive after its reader has gone. Any thread may call ring();
// wait() and rest() run on the executor's thread, one at a time.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>

namespace ft::server {

class WakeEvent : public std::enable_shared_from_this<WakeEvent> {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit WakeEvent(const boost::asio::any_io_executor& executor) : executor_(executor), timer_(executor) {}

  /// `over`: no event will follow, so rest() ends too.
  void ring(bool over) {
    heard_ |= over ? kRung | kOver : kRung;
    if ((awaited_ & heard_) == 0 || posted_.exchange(true)) return;
    boost::asio::post(executor_, [self = shared_from_this()] {
      self->posted_ = false;
      self->timer_.cancel();
    });
  }
  /// True if ring() was called since the last wait or rest, or is called now; false after `patience` without
  /// a call.
  boost::asio::awaitable<bool> wait(Milliseconds patience) { return sleep(kRung, patience); }
  /// Waits for `time`, or returns true earlier once the stream is over. After a rest, check for events before
  /// waiting.
  boost::asio::awaitable<bool> rest(Milliseconds time) { return sleep(kOver, time); }

 private:
  static constexpr unsigned kRung = 1, kOver = 2;

  boost::asio::awaitable<bool> sleep(unsigned awaited, Milliseconds patience) {
    awaited_ = awaited;  // set before heard_ is read; ring() uses the opposite order
    timer_.expires_after(patience);
    bool late = false;
    while ((heard_ & awaited) == 0 && !late) {
      const auto [error] = co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
      late = !error;  // otherwise ring() was called, perhaps for an earlier wait
    }
    awaited_ = 0;
    co_return (heard_.exchange(0) & awaited) != 0;
  }

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  std::atomic<unsigned> heard_{0}, awaited_{0};
  std::atomic<bool> posted_{false};
};

}  // namespace ft::server
