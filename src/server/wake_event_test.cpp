#include "server/wake_event.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace ft::server::wake_event_test {
namespace {

namespace net = boost::asio;
using Milliseconds = WakeEvent::Milliseconds;

constexpr Milliseconds kLong{60'000};
constexpr Milliseconds kShort{1};

class WakeEventTest : public testing::Test {
 protected:
  /// Starts a waiting coroutine; its result is in `result_` once `done_` is set.
  void start(const std::function<net::awaitable<bool>()>& waits) {
    done_ = false;
    net::co_spawn(
        io_,
        [this, waits]() -> net::awaitable<void> {
          result_ = co_await waits();
          done_ = true;
        },
        net::detached);
    io_.restart();
    io_.poll();
  }
  std::size_t poll() {
    io_.restart();
    return io_.poll();
  }

  net::io_context io_;
  std::shared_ptr<WakeEvent> wake_ = std::make_shared<WakeEvent>(io_.get_executor());
  bool result_ = false, done_ = false;
};

TEST_F(WakeEventTest, AWaitEndsWhenItRings) {
  start([this] { return wake_->wait(kLong); });
  EXPECT_FALSE(done_);
  wake_->ring(false);
  poll();
  EXPECT_TRUE(done_);
  EXPECT_TRUE(result_);
}

TEST_F(WakeEventTest, WhatRangBeforeIsHeardOnce) {
  wake_->ring(false);
  wake_->ring(false);
  start([this] { return wake_->wait(kLong); });
  EXPECT_TRUE(done_);
  EXPECT_TRUE(result_);
  start([this] { return wake_->wait(kLong); });
  EXPECT_FALSE(done_);
  wake_->ring(true);
  poll();
  EXPECT_TRUE(done_);
}

TEST_F(WakeEventTest, ARestEndsWithTheEndOnlyAndItsRingersPostNothing) {
  start([this] { return wake_->rest(kLong); });
  for (int i = 0; i < 5; ++i) wake_->ring(false);
  EXPECT_EQ(poll(), 0U) << "the I/O thread has nothing to do";
  EXPECT_FALSE(done_);
  wake_->ring(true);
  poll();
  EXPECT_TRUE(done_);
  EXPECT_TRUE(result_);
}

TEST_F(WakeEventTest, PatienceEndsWithoutARing) {
  start([this] { return wake_->wait(kShort); });
  io_.run();
  EXPECT_TRUE(done_);
  EXPECT_FALSE(result_);
}

TEST_F(WakeEventTest, AMessageToAnEarlierWaitDoesNotEndALaterOne) {
  start([this] { return wake_->wait(kLong); });
  wake_->ring(false);  // posted, not yet delivered
  wake_->ring(false);
  poll();
  ASSERT_TRUE(done_);
  start([this] { return wake_->rest(kLong); });
  wake_->ring(false);
  poll();
  EXPECT_FALSE(done_);
  wake_->ring(true);
  poll();
  EXPECT_TRUE(done_);
}

TEST_F(WakeEventTest, NoRingOfAnotherThreadIsMissed) {
  constexpr int kRings = 2000;
  std::atomic<int> posted{0};
  int seen = 0;
  net::co_spawn(
      io_,
      [&]() -> net::awaitable<void> {
        while (seen < kRings) {
          if (seen == posted) (void)co_await wake_->wait(kLong);
          seen = posted;
        }
      },
      net::detached);
  std::thread ringer([&] {
    for (int i = 0; i < kRings; ++i) {
      ++posted;
      wake_->ring(false);
      if (i % 7 == 0) std::this_thread::yield();
    }
  });
  io_.restart();
  io_.run();  // returns once every ring was seen
  ringer.join();
  EXPECT_EQ(seen, kRings);
}

}  // namespace
}  // namespace ft::server::wake_event_test
