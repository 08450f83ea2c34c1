// App: state shared by the routes. It holds the engine and the ModelInfo once ready, and load progress
// before. It also lists the answers being decoded, so that each can be cancelled by id.
// cli/commands/serve.cpp owns it; it outlives the server. Any thread may use it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/caller.h"
#include "api/model_info.h"
#include "sched/engine.h"
#include "server/metrics_text.h"

namespace ft::server {

/// The engine as the server uses it; tests may provide their own. Any thread may call it.
class EngineClient {
 public:
  virtual ~EngineClient() = default;
  virtual Result<Ticket> submit(Request request) = 0;
  virtual EngineStatus status() const = 0;
  virtual CacheReport cache() const = 0;
  virtual void clear_cache() = 0;
  /// The same for the data of one key: api::Caller::owner.
  virtual CacheReport cache_of(std::uint64_t owner) const = 0;
  virtual void clear_cache_of(std::uint64_t owner) = 0;
};

inline constexpr std::size_t kMaxUnknownFields = 64;

class App {
 public:
  /// Progress from 0 to 1 while loading.
  void loading(double progress) { progress_ = progress; }
  double progress() const { return progress_; }

  /// Sets the engine and model; both must outlive the server's last answer.
  void ready(Engine& engine, std::shared_ptr<const api::ModelInfo> model_info);
  void ready(std::unique_ptr<EngineClient> engine, std::shared_ptr<const api::ModelInfo> model_info);
  /// Null while loading.
  EngineClient* engine() const;
  std::shared_ptr<const api::ModelInfo> model_info() const;

  /// The server is the front of several models and holds none of them itself (server/front/front.h).
  void fronts() { fronts_ = true; }
  bool is_front() const { return fronts_; }

  /// From now on the server refuses new requests.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }

  HttpCounters& http() { return http_; }

  /// Logs each unknown field of a request once, up to kMaxUnknownFields of them.
  void tell_unknown(const std::vector<std::string>& fields);

  /// Lists an answer while it is decoded; the destructor removes it.
  class Registered {
   public:
    Registered(App& app, std::string id, const api::Caller& caller, std::function<void()> cancel)
        : app_(app), id_(std::move(id)) {
      app_.add(id_, {caller.owner, std::move(cancel)});
    }
    ~Registered() { app_.remove(id_); }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;

   private:
    App& app_;
    const std::string id_;
  };
  /// False if no answer with this id that the caller may use is being decoded.
  bool cancel(const std::string& id, const api::Caller& caller);
  std::size_t decoding() const;

 private:
  struct Answer {
    std::uint64_t owner = 0;
    std::function<void()> cancel;
  };
  void add(const std::string& id, Answer answer);
  void remove(const std::string& id);

  mutable std::mutex mutex_;
  std::unique_ptr<EngineClient> engine_;
  std::shared_ptr<const api::ModelInfo> model_info_;
  std::map<std::string, Answer, std::less<>> decoding_;
  HttpCounters http_;
  std::set<std::string> unknown_fields_;  // that were logged
  std::atomic<double> progress_{0};
  std::atomic<bool> draining_{false}, fronts_{false};
};

}  // namespace ft::server
