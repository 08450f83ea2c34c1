// Time and the wish to stop, passed in by the command line: hub/ reads no clock, and tests do not wait.
#pragma once

#include <cstdint>
#include <functional>

namespace ft::hub {

struct Pace {
  std::function<std::int64_t()> now_ms;
  /// Returns early once cancelled() is true. Called by several threads.
  std::function<void(std::int64_t ms)> sleep_ms;
  std::function<bool()> cancelled;
  std::int64_t backoff_ms = 1000;  // before the first repetition; doubles with each
};

}  // namespace ft::hub
