#include "server/text_lanes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <utility>

#include "api/openai/responses.h"
#include "base/free_memory.h"
#include "base/heavy_work.h"
#include "base/system.h"

namespace ft::server {
namespace {

namespace net = boost::asio;

bool continues(const HttpRequest& http_request, const api::ModelInfo* model_info) {
  return model_info != nullptr && http_request.path.starts_with("/v1/responses");
}

/// The fetching lane does all kinds of work: a grammar there delays only requests that fetch.
void do_on(TextLanes::Lane lane, const std::function<void()>& work) {
  thread_local bool yields = false;
  if (lane != TextLanes::Lane::kShort && !std::exchange(yields, true)) yield_to_others();
  if (lane == TextLanes::Lane::kFetching) return work();
  if (lane == TextLanes::Lane::kHeavy) {
    const HeavyWorkElsewhere elsewhere{HeavyWork::kFetch};
    return work();
  }
  const HeavyWorkElsewhere elsewhere{HeavyWork::kFetch, HeavyWork::kGrammar, HeavyWork::kRender};
  work();
}

TextLanes::Lane lane_of_size(std::size_t bytes) {
  if (bytes > kLongTextBytes) return TextLanes::Lane::kLong;
  return bytes > kMiddleTextBytes ? TextLanes::Lane::kMiddle : TextLanes::Lane::kShort;
}

}  // namespace

net::awaitable<TextLanes::Lane> TextLanes::lane_of(const HttpRequest& http_request,
                                                   std::shared_ptr<const api::ModelInfo> model_info) {
  if (http_request.body.size() > kLongTextBytes) co_return Lane::kLong;
  std::size_t bytes = http_request.body.size();
  // A short body may continue a long conversation.
  if (continues(http_request, model_info.get())) {
    co_await run(Lane::kShort,
                 [&] { bytes += api::history_bytes(*model_info, http_request.body, http_request.caller); });
  }
  co_return lane_of_size(bytes);
}

net::awaitable<void> TextLanes::run(Lane lane, std::function<void()> work) {
  // A request may need several lanes: first its grammar, then its images, with the grammar again.
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
          next = needed.work == HeavyWork::kFetch ? Lane::kFetching : Lane::kHeavy;
        }
        if (lane != Lane::kShort && lane != Lane::kMiddle) return_free_memory();
        co_return next;
      },
      net::use_awaitable);
}

net::thread_pool& TextLanes::pool(Lane lane) {
  if (lane == Lane::kFetching) return fetching_;
  if (lane == Lane::kHeavy) return heavy_;
  if (lane == Lane::kMiddle) return middle_;
  return lane == Lane::kLong ? long_ : short_;
}

void TextLanes::settle() {
  for (net::thread_pool* pool : {&short_, &middle_, &long_}) {
    std::promise<void> reached;
    net::post(*pool, [&] { reached.set_value(); });
    reached.get_future().wait();
  }
}

void TextLanes::join() {
  stopping_ = true;
  for (net::thread_pool* pool : {&short_, &middle_, &long_, &heavy_, &fetching_}) pool->join();
}

}  // namespace ft::server
