#include "server/text_lanes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <utility>

#include "api/image_parts.h"
#include "api/openai/responses.h"
#include "base/free_memory.h"

namespace ft::server {
namespace {

namespace net = boost::asio;

bool continues(const HttpRequest& http_request, const api::ModelInfo* model_info) {
  return model_info != nullptr && http_request.path.starts_with("/v1/responses");
}

}  // namespace

net::awaitable<TextLanes::Lane> TextLanes::lane_of(const HttpRequest& http_request,
                                                   std::shared_ptr<const api::ModelInfo> model_info) {
  const bool fetches = model_info != nullptr && model_info->images.fetch != nullptr;
  if (fetches && api::may_fetch_images(http_request.body)) co_return Lane::kFetching;
  if (http_request.body.size() > kLongTextBytes) co_return Lane::kLong;
  std::size_t bytes = http_request.body.size();
  // A short body may continue a long conversation.
  if (continues(http_request, model_info.get())) {
    co_await run(Lane::kShort, [&] { bytes += api::history_bytes(*model_info, http_request.body); });
  }
  co_return bytes > kLongTextBytes ? Lane::kLong : Lane::kShort;
}

net::awaitable<void> TextLanes::run(Lane lane, std::function<void()> work) {
  // post() is not usable here: its coroutine would resume on its own executor, which is the I/O thread's.
  co_await net::co_spawn(
      pool(lane),
      [lane, &work]() -> net::awaitable<void> {
        work();
        if (lane != Lane::kShort) return_free_memory();
        co_return;
      },
      net::use_awaitable);
}

net::thread_pool& TextLanes::pool(Lane lane) {
  if (lane == Lane::kFetching) return fetching_;
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
  short_.join();
  long_.join();
  fetching_.join();
}

}  // namespace ft::server
