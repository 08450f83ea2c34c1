// TextLanes: renders and encodes the texts of POST requests. Short and long texts have one thread each, so a
// text of megabytes delays only other long ones. One long text at a time bounds the memory of encoding.
// Requests that may name images at web addresses have threads of their own, where --image-urls is on: a slow
// server elsewhere delays only them. Any thread may call it; a coroutine resumes on its own executor. A text
// that continues a stored response is parsed twice.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "api/model_info.h"
#include "server/http_request.h"

namespace ft::server {

/// Above this total size, a body and its conversation are long. Most agents send less.
inline constexpr std::size_t kLongTextBytes = std::size_t{256} << 10;

inline constexpr std::size_t kFetchingThreads = 4;

class TextLanes {
 public:
  enum class Lane { kShort, kLong, kFetching };

  /// The lane of a request. `model_info` may be null.
  boost::asio::awaitable<Lane> lane_of(const HttpRequest& http_request,
                                       std::shared_ptr<const api::ModelInfo> model_info);
  /// Runs `work` on the lane's thread and rethrows its exceptions. Memory of a long text is then returned to
  /// the system.
  boost::asio::awaitable<void> run(Lane lane, std::function<void()> work);
  /// Waits until the threads of texts have done what was posted so far. For tests.
  void settle();
  void join();

 private:
  boost::asio::thread_pool& pool(Lane lane);

  boost::asio::thread_pool short_{1}, long_{1}, fetching_{kFetchingThreads};
};

}  // namespace ft::server
