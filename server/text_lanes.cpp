#include "server/text_lanes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "api/responses.h"
#include "base/free_memory.h"

namespace ft::server {
namespace {

namespace net = boost::asio;

bool continues(const Incoming& incoming, const api::Served* served) {
  return served != nullptr && incoming.path.starts_with("/v1/responses");
}

}  // namespace

net::awaitable<TextLanes::Lane> TextLanes::lane_of(const Incoming& incoming,
                                                   std::shared_ptr<const api::Served> served) {
  if (incoming.body.size() > kLongTextBytes) co_return Lane::kLong;
  std::size_t bytes = incoming.body.size();
  // A short body may continue a long conversation.
  if (continues(incoming, served.get())) {
    co_await run(Lane::kShort, [&] { bytes += api::history_bytes(*served, incoming.body); });
  }
  co_return bytes > kLongTextBytes ? Lane::kLong : Lane::kShort;
}

net::awaitable<void> TextLanes::run(Lane lane, std::function<void()> work) {
  // Not post(): a coroutine resumes from it on its own executor, which is the I/O thread's.
  co_await net::co_spawn(
      lane == Lane::kLong ? long_ : short_,
      [lane, &work]() -> net::awaitable<void> {
        work();
        if (lane == Lane::kLong) return_free_memory();
        co_return;
      },
      net::use_awaitable);
}

void TextLanes::join() {
  short_.join();
  long_.join();
}

}  // namespace ft::server
