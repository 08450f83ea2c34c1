#include "server/app.h"

#include <utility>

namespace ft::server {
namespace {

class LocalEngine : public EngineClient {
 public:
  explicit LocalEngine(Engine& engine) : engine_(engine) {}
  Result<Ticket> submit(Request request) override { return engine_.submit(std::move(request)); }
  EngineStatus status() const override { return engine_.status(); }
  CacheReport cache() const override { return engine_.cache(); }
  void clear_cache() override { engine_.clear_cache(); }

 private:
  Engine& engine_;
};

}  // namespace

void App::ready(Engine& engine, std::shared_ptr<const api::Served> served) {
  ready(std::make_unique<LocalEngine>(engine), std::move(served));
}

void App::ready(std::unique_ptr<EngineClient> engine, std::shared_ptr<const api::Served> served) {
  const std::lock_guard lock(mutex_);
  engine_ = std::move(engine);
  served_ = std::move(served);
  progress_ = 1;
}

EngineClient* App::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_.get();
}

std::shared_ptr<const api::Served> App::served() const {
  const std::lock_guard lock(mutex_);
  return served_;
}

void App::enlist(const std::string& id, std::function<void()> cancel) {
  const std::lock_guard lock(mutex_);
  decoding_[id] = std::move(cancel);
}

void App::strike(const std::string& id) {
  const std::lock_guard lock(mutex_);
  decoding_.erase(id);
}

bool App::cancel(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = decoding_.find(id);
  if (found == decoding_.end()) return false;
  found->second();
  return true;
}

std::size_t App::decoding() const {
  const std::lock_guard lock(mutex_);
  return decoding_.size();
}

}  // namespace ft::server
