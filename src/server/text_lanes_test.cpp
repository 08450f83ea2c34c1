#include "server/text_lanes.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "base/heavy_work.h"

namespace ft::server::text_lanes_test {
namespace {

namespace net = boost::asio;
using Lane = TextLanes::Lane;

HttpRequest with_body(std::string path, std::string body) {
  HttpRequest http_request;
  http_request.method = "POST", http_request.path = std::move(path), http_request.body = std::move(body);
  return http_request;
}

class TextLanesTest : public testing::Test {
 protected:
  ~TextLanesTest() override { lanes_.join(); }

  /// Runs `work` in the lane of `http_request`, then resumes on the connections' thread.
  void spawn(const HttpRequest& http_request, std::function<void(Lane)> work) {
    net::co_spawn(
        io_,
        [this, &http_request, work = std::move(work)]() -> net::awaitable<void> {
          const Lane lane = co_await lanes_.lane_of(http_request, model_info_);
          co_await lanes_.run(lane, [&] { work(lane); });
          EXPECT_EQ(std::this_thread::get_id(), here_);
          ++done_;
        },
        net::detached);
  }
  Lane lane_of(const HttpRequest& http_request) {
    Lane found = Lane::kShort;
    spawn(http_request, [&](Lane lane) { found = lane; });
    io_.restart();
    io_.run();
    return found;
  }
  net::io_context io_;
  TextLanes lanes_;
  std::shared_ptr<const api::ModelInfo> model_info_;
  int done_ = 0;
  const std::thread::id here_ = std::this_thread::get_id();
};

TEST_F(TextLanesTest, AShortTextDoesNotWaitForALongOne) {
  const HttpRequest large = with_body("/v1/completions", std::string(kLongTextBytes + 1, 'a'));
  const HttpRequest small = with_body("/v1/completions", "{}");
  std::promise<void> short_is_done;
  std::future<void> done = short_is_done.get_future();
  std::string order;
  spawn(large, [&](Lane) {
    constexpr std::chrono::minutes kHangs{1};  // only if both share a thread
    EXPECT_EQ(done.wait_for(kHangs), std::future_status::ready);
    order += "long";
  });
  spawn(small, [&](Lane) {
    order += "short ";
    short_is_done.set_value();
  });
  io_.run();
  EXPECT_EQ(order, "short long");
  EXPECT_EQ(done_, 2);
}

TEST_F(TextLanesTest, NoLaneRunsOnTheThreadOfTheConnections) {
  const HttpRequest large = with_body("/v1/completions", std::string(kLongTextBytes + 1, 'a'));
  const HttpRequest small = with_body("/v1/completions", "{}");
  std::thread::id of_short, of_long;
  spawn(small, [&](Lane) { of_short = std::this_thread::get_id(); });
  spawn(large, [&](Lane) { of_long = std::this_thread::get_id(); });
  io_.run();
  EXPECT_NE(of_short, std::this_thread::get_id());
  EXPECT_NE(of_long, std::this_thread::get_id());
  EXPECT_NE(of_short, of_long);
}

TEST_F(TextLanesTest, TheSizeOfABodyDecidesWhereItBegins) {
  EXPECT_EQ(lane_of(with_body("/v1/completions", std::string(kMiddleTextBytes, 'a'))), Lane::kShort);
  EXPECT_EQ(lane_of(with_body("/v1/completions", std::string(kMiddleTextBytes + 1, 'a'))), Lane::kMiddle);
  EXPECT_EQ(lane_of(with_body("/v1/completions", std::string(kLongTextBytes, 'a'))), Lane::kMiddle);
  EXPECT_EQ(lane_of(with_body("/v1/completions", std::string(kLongTextBytes + 1, 'a'))), Lane::kLong);
}

TEST_F(TextLanesTest, WhatARequestDoesDecidesWhereItIsDone) {
  const HttpRequest body = with_body("/v1/chat/completions", R"({"url": "\\u0068ttps://example.org/a.png"})");
  std::vector<std::string> runs;
  std::set<std::thread::id> threads;
  spawn(body, [&](Lane) {
    threads.insert(std::this_thread::get_id());
    runs.push_back("begun");
    begin_heavy_work(HeavyWork::kGrammar);
    runs.push_back("grammar");
    begin_heavy_work(HeavyWork::kFetch);
    runs.push_back("fetched");
  });
  io_.run();
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(runs, (std::vector<std::string>{"begun", "begun", "grammar", "begun", "grammar", "fetched"}));
  EXPECT_EQ(threads.size(), 3u) << "one thread each of short work, grammars and fetches";
}

TEST_F(TextLanesTest, HeavyWorkDelaysNoShortText) {
  for (const HeavyWork kind : {HeavyWork::kGrammar, HeavyWork::kRender, HeavyWork::kFetch}) {
    std::promise<void> short_is_done;
    std::future<void> done = short_is_done.get_future();
    std::string order;
    spawn(with_body("/v1/completions", "{}"), [&](Lane) {
      begin_heavy_work(kind);
      constexpr std::chrono::minutes kHangs{1};  // only if both share a thread
      EXPECT_EQ(done.wait_for(kHangs), std::future_status::ready);
      order += "heavy";
    });
    spawn(with_body("/v1/completions", "{}"), [&](Lane) {
      order += "short ";
      short_is_done.set_value();
    });
    io_.restart();
    io_.run();
    EXPECT_EQ(order, "short heavy");
  }
}

/// Requests of random kinds, whose work is counted in units instead of seconds: a thread's clock is the
/// number of units that it has done. All arrive before any is begun.
TEST_F(TextLanesTest, NoRequestDelaysAnotherBeyondItsOwnShare) {
  struct Arrival {
    HttpRequest http_request;
    std::optional<HeavyWork> heavy;
    std::uint64_t light = 0;   // units before the heavy work begins
    std::uint64_t waited = 0;  // units that its last thread had done before it
    Lane lane = Lane::kShort;  // of its size
  };
  constexpr std::uint64_t kHeavyUnits = 1'000'000'000'000;
  std::mt19937 random(7);
  std::vector<Arrival> arrivals(400);
  for (Arrival& arrival : arrivals) {
    constexpr std::size_t kSizes[] = {200, kMiddleTextBytes, kMiddleTextBytes + 1, kLongTextBytes + 1};
    arrival.light = kSizes[random() % 4];
    arrival.http_request = with_body("/v1/completions", std::string(arrival.light, 'a'));
    if (const auto kind = random() % 6; kind < 3) arrival.heavy = static_cast<HeavyWork>(kind);
    arrival.lane = arrival.light > kLongTextBytes     ? Lane::kLong
                   : arrival.light > kMiddleTextBytes ? Lane::kMiddle
                                                      : Lane::kShort;
  }
  std::mutex mutex;
  std::map<std::thread::id, std::uint64_t> clocks;
  const auto spend = [&](std::uint64_t units) {
    const std::lock_guard lock(mutex);
    return std::exchange(clocks[std::this_thread::get_id()], clocks[std::this_thread::get_id()] + units);
  };
  for (Arrival& arrival : arrivals) {
    spawn(arrival.http_request, [&](Lane) {
      arrival.waited = spend(arrival.light);
      if (!arrival.heavy) return;
      begin_heavy_work(*arrival.heavy);
      spend(kHeavyUnits);
    });
  }
  io_.run();
  ASSERT_EQ(done_, static_cast<int>(arrivals.size()));
  std::map<Lane, std::uint64_t> shares;  // of the requests of this size so far
  for (const Arrival& arrival : arrivals) {
    if (!arrival.heavy) {
      EXPECT_LE(arrival.waited, shares[arrival.lane]);
    }
    shares[arrival.lane] += arrival.light;
  }
  std::uint64_t heaviest = 0;
  for (const auto& [thread, units] : clocks) heaviest = std::max(heaviest, units);
  EXPECT_GT(heaviest, kHeavyUnits) << "the heavy work was done";
}

TEST_F(TextLanesTest, WhatWaitsWhileTheServerStopsIsNotBegun) {
  lanes_.join();
  bool begun = false;
  net::co_spawn(
      io_, [&]() -> net::awaitable<void> { co_await lanes_.run(Lane::kShort, [&] { begun = true; }); },
      net::detached);
  io_.run();
  EXPECT_FALSE(begun);
}

TEST_F(TextLanesTest, ALongConversationMakesAShortBodyLong) {
  auto model_info = std::make_shared<api::ModelInfo>();
  model_info->responses = std::make_shared<api::ResponseStore>();
  const std::string history(kLongTextBytes, 'a');
  ASSERT_TRUE(model_info->responses->put("resp_long", {"", history}, {}).ok());
  ASSERT_TRUE(model_info->responses->put("resp_short", {"", "[]"}, {}).ok());
  model_info_ = model_info;
  const std::string body = R"({"input":"more","previous_response_id":")";
  EXPECT_EQ(lane_of(with_body("/v1/responses", body + "resp_long\"}")), Lane::kLong);
  EXPECT_EQ(lane_of(with_body("/v1/responses/input_tokens", body + "resp_long\"}")), Lane::kLong);
  EXPECT_EQ(lane_of(with_body("/v1/responses", body + "resp_short\"}")), Lane::kShort);
  EXPECT_EQ(lane_of(with_body("/v1/responses", body + "resp_unknown\"}")), Lane::kShort);
  EXPECT_EQ(lane_of(with_body("/v1/responses", "no JSON")), Lane::kShort);
}

TEST_F(TextLanesTest, WhatWorkThrowsReachesTheConnection) {
  bool caught = false;
  net::co_spawn(
      io_,
      [this, &caught]() -> net::awaitable<void> {
        try {
          co_await lanes_.run(Lane::kLong, [] { throw std::bad_alloc(); });
        } catch (const std::bad_alloc&) {
          caught = std::this_thread::get_id() == here_;
        }
      },
      net::detached);
  io_.run();
  EXPECT_TRUE(caught);
}

}  // namespace
}  // namespace ft::server::text_lanes_test
