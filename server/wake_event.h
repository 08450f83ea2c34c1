// Wakes a coroutine of the I/O thread from another thread, and costs the ringer no system call while nobody
// waits for it. A stream waits for what is new; between two writes it rests, and then only the end wakes it.
// Owner: shared, since a message may arrive after its reader has gone. Thread: ring from any; wait and rest
// on the executor's, one at a time. Errors: none.
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

  /// `over`: nothing will follow, so that rest() ends too.
  void ring(bool over) {
    heard_ |= over ? kRung | kOver : kRung;
    if ((awaited_ & heard_) == 0 || posted_.exchange(true)) return;
    boost::asio::post(executor_, [self = shared_from_this()] {
      self->posted_ = false;
      self->timer_.cancel();
    });
  }
  /// True if it rang since the last wait or rest, or does now; false after `patience` without.
  boost::asio::awaitable<bool> wait(Milliseconds patience) { return sleep(kRung, patience); }
  /// Passes `time`, or until all is over: then true. Whoever rested looks for what is new before it waits.
  boost::asio::awaitable<bool> rest(Milliseconds time) { return sleep(kOver, time); }

 private:
  static constexpr unsigned kRung = 1, kOver = 2;

  boost::asio::awaitable<bool> sleep(unsigned awaited, Milliseconds patience) {
    awaited_ = awaited;  // before heard_ is read; a ringer does it the other way round
    timer_.expires_after(patience);
    bool late = false;
    while ((heard_ & awaited) == 0 && !late) {
      const auto [error] = co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
      late = !error;  // otherwise somebody rang, perhaps for an earlier wait
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
