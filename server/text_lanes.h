// TextLanes: where POST requests are rendered and encoded. Short texts and long ones have a thread each, so
// that a text of megabytes delays other long ones alone, and one long text at a time bounds the memory that
// encoding takes. Owner: the hub. Thread: enter() on any; it resumes on the lane's thread. Cost: a text that
// continues a kept response is parsed twice. Errors: none.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>

#include "api/served.h"
#include "server/incoming.h"

namespace ft::server {

/// A body with its conversation of more than this is long. What agents send is mostly shorter.
inline constexpr std::size_t kLongTextBytes = std::size_t{256} << 10;

class TextLanes {
 public:
  enum class Lane { kShort, kLong };

  /// Resumes on the thread of the lane that the request belongs to. `served` may be null.
  boost::asio::awaitable<Lane> enter(const Incoming& incoming, std::shared_ptr<const api::Served> served);
  /// After the work of a lane: what a long text took goes back to the system.
  static void leave(Lane lane);
  void join();

 private:
  boost::asio::thread_pool short_{1}, long_{1};
};

}  // namespace ft::server
