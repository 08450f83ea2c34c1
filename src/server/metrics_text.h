// GET /metrics: figures of the engine and the server for Prometheus. Figures of speculation, and those that
// gateways use to choose a replica, also have vLLM's names. The text has about 10 kB.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/power.h"
#include "sched/engine_status.h"
#include "server/routes.h"

namespace ft {
class Exposition;
}

namespace ft::server {

/// Counters of the server by route, a closed set. One lock per call makes it safe from any thread.
class HttpCounters {
 public:
  void answered(const Route& route, int status);
  void connections(int open) { open_ = open; }
  /// Adds the families of these counters.
  void write(Exposition& text) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string_view, int>, std::int64_t> answered_;
  std::atomic<int> open_{0};
};

std::string metrics_text(const EngineStatus& engine, const CacheReport& cache, const HttpCounters& http,
                         const PowerFacts& power);

}  // namespace ft::server
