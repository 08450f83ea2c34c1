#include "server/text_lanes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <utility>

#include "api/openai/responses.h"
#include "base/free_memory.h"
#include "base/heavy_work.h"

namespace ft::server {
namespace {

namespace net = boost::asio;

bool continues(const HttpRequest& http_request, const api::ModelInfo* model_info) {
  return model_info != nullptr && http_request.path.starts_with("/v1/responses");
}

/// The fetching lane does all: a grammar there delays only requests that fetch.
void do_on(TextLanes::Lane lane, const std::function<void()>& work) {
  if (lane == TextLanes::Lane::kFetching) return work();
  if (lane == TextLanes::Lane::kGrammar) {
    const HeavyWorkElsewhere elsewhere{HeavyWork::kFetch};
    return work();
  }
  const HeavyWorkElsewhere elsewhere{HeavyWork::kFetch, HeavyWork::kGrammar};
  work();
}

}  // namespace

net::awaitable<TextLanes::Lane> TextLanes::lane_of(const HttpRequest& http_request,
                                                   std::shared_ptr<const api::ModelInfo> model_info) {
  if (http_request.body.size() > kLongTextBytes) co_return Lane::kLong;
  std::size_t bytes = http_request.body.size();
  // A short body may continue a long conversation.
  if (continues(http_request, model_info.get())) {
    co_await run(Lane::kShort, [&] { bytes += api::history_bytes(*model_info, http_request.body); });
  }
  co_return bytes > kLongTextBytes ? Lane::kLong : Lane::kShort;
}

net::awaitable<void> TextLanes::run(Lane lane, std::function<void()> work) {
  // A request may need both: its grammar first, its images then, with the grammar again.
  for (std::optional<Lane> next = lane; next;) next = co_await try_on(*next, work);
}

net::awaitable<std::optional<TextLanes::Lane>> TextLanes::try_on(Lane lane,
                                                                 const std::function<void()>& work) {
  if (stopping_) co_return std::nullopt;  // a pool that was joined runs nothing, so waiting would not end
  // post() is not usable here: its coroutine would resume on its own executor, which is the I/O thread's.
  co_return co_await net::co_spawn(
      pool(lane),
      [this, lane, &work]() -> net::awaitable<std::optional<Lane>> {
        std::optional<Lane> next;
        try {
          if (!stopping_) do_on(lane, work);
        } catch (const HeavyWorkNeeded& needed) {
          next = needed.work == HeavyWork::kFetch ? Lane::kFetching : Lane::kGrammar;
        }
        if (lane != Lane::kShort) return_free_memory();
        co_return next;
      },
      net::use_awaitable);
}

net::thread_pool& TextLanes::pool(Lane lane) {
  if (lane == Lane::kFetching) return fetching_;
  if (lane == Lane::kGrammar) return grammar_;
  return lane == Lane::kLong ? long_ : short_;
}

void TextLanes::settle() {
  for (net::thread_pool* pool : {&short_, &long_}) {
    std::promise<void> reached;
    net::post(*pool, [&] { reached.set_value(); });
    reached.get_future().wait();
  }
}

void TextLanes::join() {
  stopping_ = true;
  short_.join();
  long_.join();
  grammar_.join();
  fetching_.join();
}

}  // namespace ft::server
