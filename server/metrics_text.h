// GET /metrics: the engine's and the server's figures for Prometheus, with the names that vLLM gives to those
// of speculation beside our own. Pure. Thread: any. Cost: some 10 kB of text. Errors: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "sched/engine_status.h"
#include "server/routes.h"

namespace ft::server {

/// What the server itself counts, by route: a closed set. Threads: any; one lock a call.
class HttpCounters {
 public:
  void answered(const Route& route, int status);
  void connections(int open) { open_ = open; }

 private:
  friend std::string metrics_text(const EngineStatus&, const CacheReport&, const HttpCounters&);
  mutable std::mutex mutex_;
  std::map<std::pair<std::string_view, int>, std::int64_t> answered_;
  std::atomic<int> open_{0};
};

std::string metrics_text(const EngineStatus& engine, const CacheReport& cache, const HttpCounters& http);

}  // namespace ft::server
