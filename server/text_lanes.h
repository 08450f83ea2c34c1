// TextLanes: renders and encodes the texts of POST requests. Short and long texts have one thread each, so a
// text of megabytes delays only other long ones, and one long text at a time bounds the memory of encoding.
// Any thread may call it; a coroutine resumes on its own executor. A text that continues a kept response is
// parsed twice.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "api/model_info.h"
#include "server/http_request.h"

namespace ft::server {

/// A body and its conversation are long above this size. Agents mostly send less.
inline constexpr std::size_t kLongTextBytes = std::size_t{256} << 10;

class TextLanes {
 public:
  enum class Lane { kShort, kLong };

  /// The lane of a request. `served` may be null.
  boost::asio::awaitable<Lane> lane_of(const HttpRequest& http_request,
                                       std::shared_ptr<const api::ModelInfo> model_info);
  /// Runs `work` on the lane's thread and throws what it throws. Memory of a long text then goes back to the
  /// system.
  boost::asio::awaitable<void> run(Lane lane, std::function<void()> work);
  void join();

 private:
  boost::asio::thread_pool short_{1}, long_{1};
};

}  // namespace ft::server
