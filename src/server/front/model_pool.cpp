#include "server/front/model_pool.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/text_layout.h"

namespace ft::server {

using State = PooledModel::State;

const char* state_name(State state) {
  switch (state) {
    case State::kUnloaded:
      return "unloaded";
    case State::kReady:
      return "ready";
    case State::kStopping:
      return "stopping";
    default:
      return "loading";
  }
}

ModelPool::ModelPool(const std::vector<std::string>& ids, const PoolLimits& limits) : limits_(limits) {
  for (const std::string& id : ids) models_.emplace_back().id = id;
}

std::optional<std::size_t> ModelPool::find(std::string_view id) const {
  const auto found = std::ranges::find(models_, id, &PooledModel::id);
  if (found == models_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - models_.begin());
}

std::int64_t ModelPool::limit_bytes(bool on_device) const {
  return limits_.memory_bytes > 0 ? limits_.memory_bytes : seen_limit_[on_device ? 1 : 0];
}

std::int64_t ModelPool::used_bytes(bool on_device) const {
  std::int64_t bytes = 0;
  for (const PooledModel& model : models_) {
    if (model.loaded() && model.on_device == on_device) bytes += model.bytes;
  }
  return bytes;
}

void ModelPool::wait(std::size_t model, std::int64_t now_ms) {
  PooledModel& one = models_[model];
  if (!one.wanted()) one.wanted_ms = now_ms;
  ++one.waiting;
}

void ModelPool::begin(std::size_t model, std::int64_t now_ms) {
  PooledModel& one = models_[model];
  --one.waiting, ++one.answering;
  one.used_ms = now_ms;
}

void ModelPool::end(std::size_t model, std::int64_t now_ms) {
  --models_[model].answering;
  models_[model].used_ms = now_ms;
}

void ModelPool::planned(std::size_t model, std::int64_t bytes, bool on_device, std::int64_t limit_bytes) {
  PooledModel& one = models_[model];
  if (one.state != State::kStarting) return;
  if (used_bytes(on_device) == 0) seen_limit_[on_device ? 1 : 0] = limit_bytes;
  one.state = State::kPlanned;
  one.bytes = bytes, one.on_device = on_device;
}

void ModelPool::ready(std::size_t model, std::int64_t now_ms) {
  PooledModel& one = models_[model];
  if (one.state != State::kLoading) return;
  one.state = State::kReady;
  one.ready_ms = one.used_ms = now_ms;
  one.restarts = false;
  one.problem.reset();
  ++one.loads;
}

void ModelPool::failed(std::size_t model, Error error, std::int64_t now_ms) {
  PooledModel& one = models_[model];
  one.problem = std::move(error), one.problem_ms = now_ms;
  one.restarts = false;
  ++one.failures;
}

void ModelPool::ended(std::size_t model, std::int64_t now_ms) {
  PooledModel& one = models_[model];
  const State before = std::exchange(one.state, State::kUnloaded);
  one.unloads = one.doubted = false;
  if (before == State::kStopping) return;
  if (before == State::kReady) {
    ++one.crashes;
    if (!one.wanted()) one.wanted_ms = now_ms;
    one.restarts = true;
  } else if (!one.problem || one.problem_ms < now_ms - limits_.retry_ms) {
    failed(model, {Code::kIo, fmt::format("the process of {} ended while it loaded the model", one.id)},
           now_ms);
  }
}

const Error* ModelPool::recent_problem(std::size_t model, std::int64_t now_ms) const {
  const PooledModel& one = models_[model];
  const bool recent = one.problem && now_ms - one.problem_ms < limits_.retry_ms;
  return recent ? &*one.problem : nullptr;
}

void ModelPool::act(PoolAction::Kind kind, std::size_t model, State state) {
  if (models_[model].state == State::kReady) ++models_[model].unloaded;
  models_[model].state = state;
  actions_.push_back({kind, model});
}

std::vector<PoolAction> ModelPool::step(std::int64_t now_ms) {
  actions_.clear();
  for (PooledModel& model : models_) model.held = false;
  unload_idle(now_ms);
  start_wanted(now_ms);
  give_memory(now_ms);
  return std::exchange(actions_, {});
}

void ModelPool::unload_idle(std::int64_t now_ms) {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const PooledModel& model = models_[i];
    if (model.state == State::kPlanned && !model.wanted()) act(PoolAction::Kind::kStop, i, State::kStopping);
    if (model.state != State::kReady || model.answering > 0) continue;
    const bool idle = model.waiting == 0 && limits_.idle_ms > 0 && now_ms - model.used_ms >= limits_.idle_ms;
    if (idle || model.unloads) act(PoolAction::Kind::kStop, i, State::kStopping);
  }
}

void ModelPool::start_wanted(std::int64_t now_ms) {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const PooledModel& model = models_[i];
    if (model.state == State::kUnloaded && model.wanted() && recent_problem(i, now_ms) == nullptr)
      act(PoolAction::Kind::kStart, i, State::kStarting);
  }
}

/// The one that waits longest comes first.
std::vector<std::size_t> ModelPool::planned_in_order() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (models_[i].state == State::kPlanned) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return models_[i].wanted_ms; });
  return order;
}

void ModelPool::give_memory(std::int64_t now_ms) {
  bool full[2] = {false, false};  // an earlier one waits for this memory
  for (const std::size_t i : planned_in_order()) {
    const PooledModel& model = models_[i];
    const std::int64_t limit = limit_bytes(model.on_device);
    if (limit > 0 && model.bytes > limit) {
      failed(i,
             {Code::kExhausted,
              fmt::format("{} needs {} of memory, and all models together may use {}; give serve a larger "
                          "--memory-mb, fewer --slots or a smaller --context",
                          model.id, bytes_text(static_cast<double>(model.bytes)),
                          bytes_text(static_cast<double>(limit)))},
             now_ms);
      act(PoolAction::Kind::kStop, i, State::kStopping);
    } else if (full[model.on_device ? 1 : 0]) {
      continue;
    } else if (limit == 0 || used_bytes(model.on_device) + model.bytes <= limit) {
      act(PoolAction::Kind::kGo, i, State::kLoading);
    } else {
      full[model.on_device ? 1 : 0] = true;
      make_room(model, now_ms);
    }
  }
}

/// Models that may be unloaded for `wanted`, in this order: idle ones, the least recently used
/// first; after a turn also busy ones, the one that was loaded first before the others.
std::vector<std::size_t> ModelPool::victims(const PooledModel& wanted, std::int64_t now_ms) const {
  std::vector<std::size_t> order;
  const std::int64_t turn_began_ms = now_ms - limits_.turn_ms;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const PooledModel& model = models_[i];
    if (model.state != State::kReady || model.on_device != wanted.on_device) continue;
    const bool idle = model.answering == 0 && model.waiting == 0;
    const bool turn_over = wanted.wanted_ms <= turn_began_ms && model.ready_ms <= turn_began_ms;
    if (idle || turn_over) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const PooledModel& model = models_[i];
    const bool busy = model.answering > 0 || model.waiting > 0;
    return std::pair(busy, busy ? model.ready_ms : model.used_ms);
  });
  return order;
}

/// Unloads nothing if that would not be enough.
void ModelPool::make_room(const PooledModel& wanted, std::int64_t now_ms) {
  std::int64_t lacking = used_bytes(wanted.on_device) + wanted.bytes - limit_bytes(wanted.on_device);
  for (const PooledModel& model : models_) {
    const bool leaves = model.state == State::kStopping || (model.state == State::kReady && model.unloads);
    if (leaves && model.on_device == wanted.on_device) lacking -= model.bytes;
  }
  std::vector<std::size_t> leaving;
  for (const std::size_t i : victims(wanted, now_ms)) {
    if (lacking <= 0) break;
    if (models_[i].unloads) continue;
    lacking -= models_[i].bytes;
    leaving.push_back(i);
  }
  if (lacking > 0) return;
  for (const std::size_t i : leaving) {
    if (models_[i].answering == 0) {
      act(PoolAction::Kind::kStop, i, State::kStopping);
    } else {
      models_[i].held = true;
    }
  }
}

}  // namespace ft::server
