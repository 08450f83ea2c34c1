#include "server/text_lanes.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "api/responses.h"
#include "base/free_memory.h"

namespace ft::server {
namespace {

namespace net = boost::asio;

/// The executor is the handler's own: post(pool, use_awaitable) would come back to the caller's thread.
net::awaitable<void> move_to(net::thread_pool& pool) {
  co_await net::post(net::bind_executor(pool.get_executor(), net::use_awaitable));
}

/// A short body may continue a long conversation.
bool continues_long(const Incoming& incoming, const api::Served* served) {
  if (served == nullptr || !incoming.path.starts_with("/v1/responses")) return false;
  return incoming.body.size() + api::history_bytes(*served, incoming.body) > kLongTextBytes;
}

}  // namespace

net::awaitable<TextLanes::Lane> TextLanes::enter(const Incoming& incoming,
                                                 std::shared_ptr<const api::Served> served) {
  if (incoming.body.size() <= kLongTextBytes) {
    co_await move_to(short_);
    if (!continues_long(incoming, served.get())) co_return Lane::kShort;
  }
  co_await move_to(long_);
  co_return Lane::kLong;
}

void TextLanes::leave(Lane lane) {
  if (lane == Lane::kLong) return_free_memory();
}

void TextLanes::join() {
  short_.join();
  long_.join();
}

}  // namespace ft::server
