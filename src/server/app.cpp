#include "server/app.h"

#include <fmt/format.h>
#include <utility>

#include "api/notes.h"
#include "base/log.h"

namespace ft::server {
namespace {

class LocalEngine : public EngineClient {
 public:
  explicit LocalEngine(Engine& engine) : engine_(engine) {}
  Result<Ticket> submit(Request request) override { return engine_.submit(std::move(request)); }
  EngineStatus status() const override { return engine_.status(); }
  CacheReport cache() const override { return engine_.cache(); }
  void clear_cache() override { engine_.clear_cache(); }
  CacheReport cache_of(std::uint64_t owner) const override { return engine_.cache_of(owner); }
  void clear_cache_of(std::uint64_t owner) override { engine_.clear_cache_of(owner); }

 private:
  Engine& engine_;
};

}  // namespace

void App::ready(Engine& engine, std::shared_ptr<const api::ModelInfo> model_info) {
  ready(std::make_unique<LocalEngine>(engine), std::move(model_info));
}

void App::ready(std::unique_ptr<EngineClient> engine, std::shared_ptr<const api::ModelInfo> model_info) {
  const std::lock_guard lock(mutex_);
  engine_ = std::move(engine);
  model_info_ = std::move(model_info);
  progress_ = 1;
}

EngineClient* App::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_.get();
}

std::shared_ptr<const api::ModelInfo> App::model_info() const {
  const std::lock_guard lock(mutex_);
  return model_info_;
}

void App::add(const std::string& id, Answer answer) {
  const std::lock_guard lock(mutex_);
  decoding_[id] = std::move(answer);
}

void App::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  decoding_.erase(id);
}

bool App::cancel(const std::string& id, const api::Caller& caller) {
  const std::lock_guard lock(mutex_);
  const auto found = decoding_.find(id);
  if (found == decoding_.end() || !caller.may_use(found->second.owner)) return false;
  found->second.cancel();
  return true;
}

void App::tell_unknown(const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    const std::string name = api::plain_name(field);
    {
      const std::lock_guard lock(mutex_);
      if (unknown_fields_.size() >= kMaxUnknownFields || !unknown_fields_.insert(name).second) continue;
    }
    log_warn(
        fmt::format("requests have the field \"{}\", which has no effect here; serve --strict-fields "
                    "refuses such fields",
                    name));
  }
}

std::size_t App::decoding() const {
  const std::lock_guard lock(mutex_);
  return decoding_.size();
}

}  // namespace ft::server
