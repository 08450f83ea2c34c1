// What stands behind the routes: the engine and what is served, once they are ready; until then how far the
// loading is. Also the list of answers being decoded, so that one can be cancelled by its id.
// Owner: cli/commands/serve.cpp; outlives the server. Threads: any. Cost: one lock a call. Errors: none.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/model_info.h"
#include "sched/engine.h"
#include "server/metrics_text.h"

namespace ft::server {

/// What the server asks of an engine; a test's may be another. Threads: any.
class EngineClient {
 public:
  virtual ~EngineClient() = default;
  virtual Result<Ticket> submit(Request request) = 0;
  virtual EngineStatus status() const = 0;
  virtual CacheReport cache() const = 0;
  virtual void clear_cache() = 0;
};

class App {
 public:
  /// 0 to 1, while loading.
  void loading(double progress) { progress_ = progress; }
  double progress() const { return progress_; }

  /// Both must outlive the server's last answer.
  void ready(Engine& engine, std::shared_ptr<const api::ModelInfo> model_info);
  void ready(std::unique_ptr<EngineClient> engine, std::shared_ptr<const api::ModelInfo> model_info);
  /// Null while loading.
  EngineClient* engine() const;
  std::shared_ptr<const api::ModelInfo> model_info() const;

  /// From now on nothing new is taken on.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }

  HttpCounters& http() { return http_; }

  /// An answer that is being decoded; struck from the list at the end of this value.
  class Enlisted {
   public:
    Enlisted(App& app, std::string id, std::function<void()> cancel) : app_(app), id_(std::move(id)) {
      app_.add(id_, std::move(cancel));
    }
    ~Enlisted() { app_.remove(id_); }
    Enlisted(const Enlisted&) = delete;
    Enlisted& operator=(const Enlisted&) = delete;

   private:
    App& app_;
    const std::string id_;
  };
  /// False if nothing of this id is being decoded.
  bool cancel(const std::string& id);
  std::size_t decoding() const;

 private:
  void add(const std::string& id, std::function<void()> cancel);
  void remove(const std::string& id);

  mutable std::mutex mutex_;
  std::unique_ptr<EngineClient> engine_;
  std::shared_ptr<const api::ModelInfo> model_info_;
  std::map<std::string, std::function<void()>, std::less<>> decoding_;
  HttpCounters http_;
  std::atomic<double> progress_{0};
  std::atomic<bool> draining_{false};
};

}  // namespace ft::server
