// Front: several models at one address. Each is served by a separate process (server/front/
// model_process.h); the front holds the keys and limits, chooses the process by the request's model, and
// passes requests on (server/front/relay.h). It loads and unloads as server/front/model_pool.h decides.
// server.cpp owns it. Thread: the I/O thread. Errors of lease(): kNotFound for an unknown model, kBusy if the
// memory or the queue is full, else the error of the load.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/openai/response_store.h"
#include "api/several_models.h"
#include "server/front/model_pool.h"
#include "server/front/model_process.h"

namespace ft::server {

struct FrontOptions {
  std::vector<std::string> ids;  // the first answers requests that name no model
  std::map<std::string, std::string> aliases;
  bool any_model = false;  // the first answers requests that name an unknown one too
  PoolLimits limits;
  int queue = 256;                                // max requests that wait for a model
  std::int64_t memory_wait_ms = 30'000;           // for memory that other models use
  std::string secret;                             // the key of the processes
  std::shared_ptr<api::ResponseStore> responses;  // null: each process keeps its own
  std::string version;
};

class Front {
 public:
  Front(boost::asio::any_io_executor executor, FrontOptions options, std::unique_ptr<ModelStarter> starter);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  /// A model that is ready, and stays loaded while the lease lives.
  class Lease {
   public:
    Lease(Front& front, std::size_t model, int port) : front_(&front), model_(model), port_(port) {}
    Lease(Lease&& other) noexcept
        : front_(std::exchange(other.front_, nullptr)), model_(other.model_), port_(other.port_) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    int port() const { return port_; }
    std::size_t model() const { return model_; }

   private:
    Front* front_;
    std::size_t model_;
    int port_;
  };

  const FrontOptions& options() const { return options_; }
  const ModelPool& pool() const { return pool_; }
  /// The model of a request; "": the first.
  Result<std::size_t> model_of(const std::string& name) const;
  /// Loads the model if needed.
  boost::asio::awaitable<Result<Lease>> lease(std::size_t model);
  /// The process of this lease refused a connection or broke it. New requests wait until it is started again,
  /// or answers; one that does neither is ended.
  void doubt(const Lease& lease);
  /// Unloads the model after its answers.
  boost::asio::awaitable<void> unload(std::size_t model);
  /// The ready model that was used last; empty: no model is ready.
  std::optional<std::size_t> used_last() const;
  /// The ready models, as leases.
  std::vector<Lease> ready_ones();
  std::vector<api::ListedModel> listed() const;
  api::ListedModel listed(std::size_t model) const;

  /// Watches the clock until stop().
  boost::asio::awaitable<void> run();
  /// Asks all processes to end.
  void stop();
  /// After the last use of the executor, which still lives.
  void close();

 private:
  struct Child {
    std::unique_ptr<ModelProcess> process;
    std::unique_ptr<boost::asio::posix::stream_descriptor> output;
    int port = 0;
    std::int64_t stopping_ms = 0;  // since when it was asked to end
    std::string facts;             // of its last load
  };
  class Waiting;

  boost::asio::awaitable<void> listen(std::size_t model);
  boost::asio::awaitable<void> probe(std::size_t model, int port);
  boost::asio::awaitable<void> pause(std::int64_t ms);
  void take(std::size_t model, const ModelNews& news);
  void step();
  void start(std::size_t model);
  void end(std::size_t model);
  void kill_slow_ones();
  int waiting() const;
  Error busy(std::size_t model) const;

  boost::asio::any_io_executor executor_;
  const FrontOptions options_;
  std::unique_ptr<ModelStarter> starter_;
  ModelPool pool_;
  std::vector<Child> children_;
  std::list<boost::asio::steady_timer*> sleepers_;  // woken by every change
  std::int64_t created_s_;
  bool stopped_ = false;
};

}  // namespace ft::server
