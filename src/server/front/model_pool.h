// ModelPool: decides which of several models are loaded. A model is wanted while a request waits for it. Its
// process first plans its memory and is loaded once that much is free. Otherwise the least recently used idle
// models are unloaded. If busy models hold the memory for longer than a turn, the one that was loaded first
// takes no new answers until it is idle, then is unloaded. A pure state machine: server/front/front.cpp
// passes it the events and the time, and carries out the result of step(). Thread: the I/O thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::server {

struct PoolLimits {
  std::int64_t memory_bytes = 0;  // of all loaded models; 0: as a plan reports while none is loaded
  std::int64_t idle_ms = 0;       // an idle model is unloaded after this time; 0: never
  std::int64_t turn_ms = 5'000;   // models that answer keep their memory from others this long
  std::int64_t retry_ms = 1'000;  // a load that failed is not repeated earlier
};

struct PooledModel {
  enum class State { kUnloaded, kStarting, kPlanned, kLoading, kReady, kStopping };

  std::string id;
  State state = State::kUnloaded;
  std::int64_t bytes = 0;        // while loaded; 0: not planned yet
  bool on_device = false;        // these bytes are a GPU's
  int answering = 0;             // requests
  int waiting = 0;               // requests
  bool held = false;             // takes no new answers: others wait for its memory
  bool unloads = false;          // unloads after its answers
  bool doubted = false;          // takes no new answers: its process may have ended
  bool restarts = false;         // its process crashed while it was ready
  std::int64_t used_ms = 0;      // when its last answer ended or began
  std::int64_t ready_ms = 0;     // since when it is ready
  std::int64_t wanted_ms = 0;    // since when it is wanted
  std::optional<Error> problem;  // of the last load
  std::int64_t problem_ms = 0;
  std::int64_t loads = 0, unloaded = 0, crashes = 0, failures = 0;

  bool wanted() const { return waiting > 0 || restarts; }
  bool loaded() const { return state >= State::kLoading; }
  bool may_begin() const { return state == State::kReady && !held && !unloads && !doubted; }
};

/// "unloaded", "loading", "ready", "stopping"
const char* state_name(PooledModel::State state);

struct PoolAction {
  enum class Kind {
    kStart,  // a process, which plans its memory
    kGo,     // the planned process may load
    kStop,   // the process
  };
  Kind kind = Kind::kStart;
  std::size_t model = 0;
};

class ModelPool {
 public:
  ModelPool(const std::vector<std::string>& ids, const PoolLimits& limits);

  const std::vector<PooledModel>& models() const { return models_; }
  const PooledModel& at(std::size_t model) const { return models_[model]; }
  std::optional<std::size_t> find(std::string_view id) const;
  /// The limit of the machine's memory or a GPU's; 0: unknown.
  std::int64_t limit_bytes(bool on_device) const;
  std::int64_t used_bytes(bool on_device) const;

  /// A request begins or stops waiting for the model, or begins or ends its answer.
  void wait(std::size_t model, std::int64_t now_ms);
  void leave(std::size_t model) { --models_[model].waiting; }
  void begin(std::size_t model, std::int64_t now_ms);
  void end(std::size_t model, std::int64_t now_ms);
  /// The model leaves after its answers.
  void unload(std::size_t model) { models_[model].unloads = models_[model].loaded(); }
  /// A connection of the model's process broke; until it has ended or answers again.
  void doubt(std::size_t model) {
    models_[model].doubted = models_[model].state == PooledModel::State::kReady;
  }
  void trust(std::size_t model) { models_[model].doubted = false; }

  /// A process has reported its plan. `limit_bytes`: memory for all models, as the process sees it.
  void planned(std::size_t model, std::int64_t bytes, bool on_device, std::int64_t limit_bytes);
  void ready(std::size_t model, std::int64_t now_ms);
  void failed(std::size_t model, Error error, std::int64_t now_ms);
  void ended(std::size_t model, std::int64_t now_ms);

  /// The next actions; their states are already set. Call it after every event, and now and then.
  std::vector<PoolAction> step(std::int64_t now_ms);
  /// The error of a load that failed a moment ago.
  const Error* recent_problem(std::size_t model, std::int64_t now_ms) const;

 private:
  void unload_idle(std::int64_t now_ms);
  void start_wanted(std::int64_t now_ms);
  void give_memory(std::int64_t now_ms);
  void make_room(const PooledModel& wanted, std::int64_t now_ms);
  std::vector<std::size_t> planned_in_order() const;
  std::vector<std::size_t> victims(const PooledModel& wanted, std::int64_t now_ms) const;
  void act(PoolAction::Kind kind, std::size_t model, PooledModel::State state);
  std::size_t index_of(const PooledModel& model) const {
    return static_cast<std::size_t>(&model - models_.data());
  }

  std::vector<PooledModel> models_;
  PoolLimits limits_;
  std::int64_t seen_limit_[2] = {0, 0};  // machine, device
  std::vector<PoolAction> actions_;
};

}  // namespace ft::server
