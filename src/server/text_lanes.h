// TextLanes: renders and encodes the texts of POST requests. Short, middle and long texts have one thread
// each, so a text of megabytes delays only other long ones. One long text at a time bounds the memory of
// encoding. All three leave heavy work (base/heavy_work.h) to other threads: a request that turns out to
// compile a grammar, to render for long or to fetch an image is repeated there, so a slow grammar or a slow
// remote server delays only similar requests. A request thus waits only for earlier requests of its lane. All
// but the short lane yield their cores. Any thread may call it; a coroutine resumes on its own executor. A
// text that continues a stored response is parsed twice.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "api/model_info.h"
#include "server/http_request.h"

namespace ft::server {

/// Above this total size, a body and its conversation are of middle size. Most chats send less.
inline constexpr std::size_t kMiddleTextBytes = std::size_t{32} << 10;
/// Above this, they are long. Most agents send less.
inline constexpr std::size_t kLongTextBytes = std::size_t{256} << 10;

inline constexpr std::size_t kFetchingThreads = 4;
inline constexpr std::size_t kHeavyThreads = 2;

class TextLanes {
 public:
  enum class Lane { kShort, kMiddle, kLong, kFetching, kHeavy };

  /// The first lane of a request. `model_info` may be null.
  boost::asio::awaitable<Lane> lane_of(const HttpRequest& http_request,
                                       std::shared_ptr<const api::ModelInfo> model_info);
  /// Runs `work` on the lane's thread and rethrows its exceptions. Work that needs another lane is run again
  /// there, from its beginning. Memory of a long text is then returned to the system.
  boost::asio::awaitable<void> run(Lane lane, std::function<void()> work);
  /// Waits until the text threads have finished all posted work. For tests.
  void settle();
  /// Ends running work; waiting work is not started.
  void join();

 private:
  boost::asio::thread_pool& pool(Lane lane);
  /// One run; the lane that the work needs instead, if any.
  boost::asio::awaitable<std::optional<Lane>> try_on(Lane lane, const std::function<void()>& work);

  std::atomic<bool> stopping_{false};
  boost::asio::thread_pool short_{1}, middle_{1}, long_{1}, fetching_{kFetchingThreads};
  boost::asio::thread_pool heavy_{kHeavyThreads};  // grammars and long renderings
};

}  // namespace ft::server
