#include "server/front/front.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/front/forwarded.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
using net::awaitable;
using State = PooledModel::State;

constexpr auto kAwaitFront = net::as_tuple(net::use_awaitable);
constexpr std::int64_t kTickMs = 250;    // between two looks at the clock
constexpr std::int64_t kGoneMs = 5;      // between two looks at a process that ends
constexpr std::int64_t kEndMs = 10'000;  // for a process to end by itself
constexpr std::chrono::milliseconds kProbeAgain{100};
constexpr std::size_t kMaxNewsLine = 1 << 20;  // bytes of a process's output without a newline

std::int64_t now_ms() { return steady_ns() / 1'000'000; }

std::int64_t epoch_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

/// Counts a request that waits for a model; the pool forgets it even if its coroutine is cancelled.
class Front::Waiting {
 public:
  Waiting(Front& front, std::size_t model) : front_(front), model_(model) {
    front_.pool_.wait(model_, now_ms());
    front_.step();
  }
  ~Waiting() {
    if (waits_) front_.pool_.leave(model_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  Lease begin() {
    waits_ = false;
    front_.pool_.begin(model_, now_ms());
    return {front_, model_, front_.children_[model_].port};
  }

 private:
  Front& front_;
  const std::size_t model_;
  bool waits_ = true;
};

Front::Lease::~Lease() {
  if (front_ == nullptr) return;
  front_->pool_.end(model_, now_ms());
  front_->step();
}

Front::Front(net::any_io_executor executor, FrontOptions options, std::unique_ptr<ModelStarter> starter)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      starter_(std::move(starter)),
      pool_(options_.ids, options_.limits),
      children_(options_.ids.size()),
      created_s_(epoch_s()) {}

Front::~Front() = default;

Result<std::size_t> Front::model_of(const std::string& name) const {
  if (name.empty()) return std::size_t{0};
  if (const auto found = pool_.find(name)) return *found;
  if (const auto alias = options_.aliases.find(name); alias != options_.aliases.end())
    return pool_.find(alias->second).value_or(0);
  if (options_.any_model) return std::size_t{0};
  return Error{
      Code::kNotFound,
      fmt::format("the model \"{}\" is not served; this server has {}", name, fmt::join(options_.ids, ", ")),
      "model"};
}

int Front::waiting() const {
  int count = 0;
  for (const PooledModel& model : pool_.models()) count += model.waiting;
  return count;
}

Error Front::busy(std::size_t model) const {
  std::vector<std::string> users;
  for (const PooledModel& other : pool_.models()) {
    if (other.loaded()) users.push_back(other.id);
  }
  return {Code::kBusy, fmt::format("{} waits for memory that is used by {}, which answer other requests; try "
                                   "again later, or give serve a larger --memory-mb",
                                   pool_.at(model).id, fmt::join(users, ", "))};
}

awaitable<void> Front::pause(std::int64_t ms) {
  net::steady_timer timer(executor_, std::chrono::milliseconds(ms));
  const auto place = sleepers_.insert(sleepers_.end(), &timer);
  struct Awake {
    std::list<net::steady_timer*>& all;
    std::list<net::steady_timer*>::iterator place;
    ~Awake() { all.erase(place); }
  } const awake{sleepers_, place};
  (void)co_await timer.async_wait(kAwaitFront);
}

awaitable<Result<Front::Lease>> Front::lease(std::size_t model) {
  if (const Error* problem = pool_.recent_problem(model, now_ms())) co_return *problem;
  if (!pool_.at(model).may_begin() && waiting() >= options_.queue) {
    co_return Error{Code::kBusy,
                    fmt::format("{} requests wait for a model already; try again later", waiting())};
  }
  const std::int64_t failures = pool_.at(model).failures, since_ms = now_ms();
  Waiting request(*this, model);
  for (;;) {
    const PooledModel& one = pool_.at(model);
    if (stopped_) co_return Error{Code::kCancelled, "the server is stopping"};
    if (one.may_begin()) co_return request.begin();
    if (one.failures != failures && one.problem) co_return *one.problem;
    const bool for_memory = one.state == State::kPlanned;
    if (for_memory && now_ms() - since_ms >= options_.memory_wait_ms) co_return busy(model);
    co_await pause(kTickMs);
  }
}

void Front::doubt(const Lease& lease) {
  const std::size_t model = lease.model();
  if (stopped_ || lease.port() != children_[model].port || pool_.at(model).doubted) return;
  pool_.doubt(model);
  if (pool_.at(model).doubted) net::co_spawn(executor_, probe(model, lease.port()), net::detached);
}

/// Asks a doubted process whether it serves, until it is trusted or has ended.
awaitable<void> Front::probe(std::size_t model, int port) {
  const Child& child = children_[model];
  const std::int64_t since_ms = now_ms();
  net::steady_timer timer(executor_);
  HttpRequest question;
  question.method = "GET", question.path = "/health", question.id = "probe";
  constexpr int kServes = 200;
  const auto doubted = [&] { return !stopped_ && child.port == port && pool_.at(model).doubted; };
  while (doubted()) {
    pool_.wait(model, now_ms());
    pool_.begin(model, now_ms());
    const Lease lease(*this, model, port);
    const int status = (co_await ask(*this, lease, question, executor_)).status;
    if (!doubted()) co_return;
    if (status == kServes) {
      pool_.trust(model);
      co_return step();
    }
    if (now_ms() - since_ms >= kEndMs && child.stopping_ms == 0) {
      log_error(fmt::format("the process of {} does not answer and is ended", pool_.at(model).id));
      end(model);
    }
    timer.expires_after(kProbeAgain);
    (void)co_await timer.async_wait(kAwaitFront);
  }
}

void Front::end(std::size_t model) {
  children_[model].stopping_ms = now_ms();
  children_[model].process->stop();
}

awaitable<void> Front::unload(std::size_t model) {
  pool_.unload(model);
  step();
  while (!stopped_ && pool_.at(model).unloads) co_await pause(kTickMs);
}

std::optional<std::size_t> Front::used_last() const {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!pool_.at(i).may_begin()) continue;
    if (!last || pool_.at(i).used_ms > pool_.at(*last).used_ms) last = i;
  }
  return last;
}

std::vector<Front::Lease> Front::ready_ones() {
  std::vector<Lease> leases;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (pool_.at(i).state != State::kReady || pool_.at(i).doubted) continue;
    pool_.wait(i, now_ms());
    pool_.begin(i, now_ms());
    leases.emplace_back(*this, i, children_[i].port);
  }
  return leases;
}

api::ListedModel Front::listed(std::size_t model) const {
  const PooledModel& one = pool_.at(model);
  return {one.id,
          state_name(one.state),
          children_[model].facts,
          one.bytes,
          one.answering,
          one.waiting,
          created_s_,
          one.problem ? one.problem->message : ""};
}

std::vector<api::ListedModel> Front::listed() const {
  std::vector<api::ListedModel> all;
  for (std::size_t i = 0; i < children_.size(); ++i) all.push_back(listed(i));
  return all;
}

void Front::take(std::size_t model, const ModelNews& news) {
  Child& child = children_[model];
  switch (news.kind) {
    case ModelNews::Kind::kPlanned:
      pool_.planned(model, news.bytes, news.on_device, news.limit_bytes);
      break;
    case ModelNews::Kind::kReady:
      child.port = news.port, child.facts = news.facts;
      pool_.ready(model, now_ms());
      log_info(fmt::format("{} is loaded", pool_.at(model).id));
      break;
    case ModelNews::Kind::kFailed:
      log_error(fmt::format("{}: {}", pool_.at(model).id, news.error.message));
      pool_.failed(model, news.error, now_ms());
      break;
    case ModelNews::Kind::kNone:
      return;
  }
  step();
}

/// Reads the process's news until it ends.
awaitable<void> Front::listen(std::size_t model) {
  std::string text;
  char bytes[4096];
  for (;;) {
    const auto [error, got] =
        co_await children_[model].output->async_read_some(net::buffer(bytes), kAwaitFront);
    if (error || got == 0) break;
    text.append(bytes, got);
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      take(model, children_[model].process->read(std::string_view(text).substr(0, end)));
      text.erase(0, end + 1);
    }
    if (text.size() > kMaxNewsLine) text.clear();
  }
  Child& child = children_[model];
  // Its output closes a moment before it is gone; the destructor of the process would block this thread.
  const std::int64_t closed_ms = now_ms();
  while (!stopped_ && !child.process->has_ended() && now_ms() - closed_ms < kEndMs) co_await pause(kGoneMs);
  const bool asked = pool_.at(model).state == State::kStopping;
  child.output.reset();
  child.process.reset();
  child.port = 0, child.stopping_ms = 0;
  pool_.ended(model, now_ms());
  const std::string& id = pool_.at(model).id;
  if (asked) {
    log_info(fmt::format("{} is unloaded", id));
  } else if (pool_.at(model).restarts) {
    log_error(fmt::format("the process of {} ended unexpectedly and is started again", id));
  }
  if (!stopped_) step();
}

void Front::start(std::size_t model) {
  Child& child = children_[model];
  Result<std::unique_ptr<ModelProcess>> process =
      starter_->start(pool_.at(model).id, pool_.limit_bytes(false), pool_.limit_bytes(true));
  if (!process.ok()) {
    pool_.failed(model, process.error(), now_ms());
    pool_.ended(model, now_ms());
    return;
  }
  child.process = std::move(*process);
  child.output = std::make_unique<net::posix::stream_descriptor>(
      executor_, ::fcntl(child.process->output(), F_DUPFD_CLOEXEC, 0));
  net::co_spawn(executor_, listen(model), net::detached);
}

void Front::step() {
  if (stopped_) return;
  for (const PoolAction& action : pool_.step(now_ms())) {
    Child& child = children_[action.model];
    switch (action.kind) {
      case PoolAction::Kind::kStart:
        start(action.model);
        break;
      case PoolAction::Kind::kGo:
        child.process->go();
        break;
      case PoolAction::Kind::kStop:
        end(action.model);
        break;
    }
  }
  for (net::steady_timer* sleeper : sleepers_) sleeper->cancel();
}

void Front::kill_slow_ones() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].stopping_ms != 0 && now_ms() - children_[i].stopping_ms >= kEndMs) end(i);
  }
}

awaitable<void> Front::run() {
  net::steady_timer timer(executor_);
  while (!stopped_) {
    timer.expires_after(std::chrono::milliseconds(kTickMs));
    (void)co_await timer.async_wait(kAwaitFront);
    step();
    kill_slow_ones();
  }
}

void Front::close() {
  stopped_ = true;
  for (Child& child : children_) child.output.reset();
}

void Front::stop() {
  stopped_ = true;
  for (Child& child : children_) {
    if (child.process) child.process->stop();
  }
  for (net::steady_timer* sleeper : sleepers_) sleeper->cancel();
}

}  // namespace ft::server
