#include "sched/engine.h"

#include <algorithm>
#include <chrono>

#include "base/free_memory.h"
#include "base/log.h"
#include "base/system.h"
#include "models/family.h"
#include "sched/admission.h"
#include "sched/memory_plan.h"
#include "speculation/context_room.h"

namespace ft {

namespace {

const ChatFormat& format_of(const EngineOptions& options, const Model& model) {
  return options.chat_format != nullptr ? *options.chat_format
                                        : choose_chat_format(chat_formats_of(model.facts.family), "");
}

CalibrationCacheOptions calibration_of(const EngineOptions& options) {
  CalibrationCacheOptions calibration = options.costs;
  if (!calibration.now_ms) calibration.now_ms = options.now_ms;
  return calibration;
}

std::vector<CacheTier*> tiers_of(const std::unique_ptr<CacheTier>& memory,
                                 const std::unique_ptr<CacheTier>& folder) {
  std::vector<CacheTier*> tiers;
  if (memory) tiers.push_back(memory.get());
  if (folder) tiers.push_back(folder.get());
  return tiers;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::start(Backend& backend, const Model& model,
                                              const Tokenizer& tokenizer, const EngineOptions& options) {
  MemoryReport memory = memory_needed(backend, model, options.decoder);
  memory.limit = memory_limit(backend, model, options.memory_bytes);
  MemoryReport resident = memory;
  if (options.weights_mapped && memory.total() > memory.limit) resident.weights = 0;
  FT_TRY(check_memory(resident, options.decoder));
  if (resident.weights == 0 && memory.weights > 0)
    log_warn(page_cache_warning(memory, model.target.bytes_per_step()));
  std::unique_ptr<CacheTier> memory_tier, folder;
  if (!options.folder.directory.empty()) {
    FT_ASSIGN(folder, CacheTier::open(options.folder));  // an owned folder fails before packing
  }
  EngineOptions started = options;
  if (folder) started.folder.directory = folder->directory();
  FT_ASSIGN(std::unique_ptr<Decoder> decoder, Decoder::make(backend, model, options.decoder));
  if (options.memory_tier_bytes > 0 && decoder->room().snapshots > 0) {
    CacheTierOptions tier;
    tier.limit_bytes = options.memory_tier_bytes;
    FT_ASSIGN(memory_tier, CacheTier::open(tier));
    FT_TRY(memory_tier->start(decoder->snapshots()));
  }
  if (folder) FT_TRY(folder->start(decoder->snapshots()));
  memory.weights = decoder->packed_bytes();
  std::unique_ptr<Engine> engine(
      new Engine(std::move(decoder), std::move(memory_tier), std::move(folder), memory, tokenizer, started));
  std::unique_lock lock(engine->mutex_);
  engine->wake_.wait(lock, [&] { return engine->calibrated_; });
  lock.unlock();
  return engine;
}

Engine::Engine(std::unique_ptr<Decoder> decoder, std::unique_ptr<CacheTier> memory_tier,
               std::unique_ptr<CacheTier> folder, const MemoryReport& memory, const Tokenizer& tokenizer,
               const EngineOptions& options)
    : decoder_(std::move(decoder)),
      memory_tier_(std::move(memory_tier)),
      folder_(std::move(folder)),
      options_(options),
      memory_(memory),
      costs_(calibration_of(options)),
      recall_file_(options.recall_file),
      scheduler_(*decoder_, tokenizer, format_of(options, decoder_->model()),
                 {options.unread_ms, options.snapshot_tokens, options.now_ms, tiers_of(memory_tier_, folder_),
                  options.cache_share}),
      thread_([this] { loop(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Status Engine::fits(const Request& request) const {
  const RequestFields& fields = request.fields();
  if (!fields.images.empty() && !decoder_->images_problem().empty())
    return Error{Code::kUnsupported, decoder_->images_problem()};
  const std::int64_t context = decoder_->options().context;
  return check_room(static_cast<std::int64_t>(fields.prompt.size()),
                    fields.slot.context > 0 ? std::min(fields.slot.context, context) : context);
}

Result<Ticket> Engine::submit(Request request) {
  FT_TRY(fits(request));
  auto mailbox = std::make_shared<Mailbox>(options_.unread_events);
  auto job = std::make_unique<Job>(std::move(request), mailbox, scheduler_.now_ms());
  {
    const std::lock_guard lock(mutex_);
    // A free slot is room too, even if the engine thread has not yet filled it.
    const int free_slots = std::max(0, decoder_->options().slots - status_.running);
    if (!status_.lost.empty()) {
      ++refused_;
      return Error{Code::kCancelled, status_.lost};
    }
    if (draining_ || waiting_.size() >= options_.queue + static_cast<std::size_t>(free_slots)) {
      ++refused_;
      if (draining_)
        return Error{Code::kCancelled, "the engine is stopping; send the request to another one, or later"};
      return Error{Code::kBusy, "too many requests are waiting; try again when some have ended"};
    }
    ++requests_;
    waiting_.push_back(std::move(job));
  }
  wake_.notify_all();
  return Ticket(std::move(mailbox));
}

EngineStatus Engine::status() const {
  const std::lock_guard lock(mutex_);
  EngineStatus status = status_;
  status.waiting = static_cast<int>(waiting_.size());
  status.queue = static_cast<int>(options_.queue);
  status.draining = draining_;
  status.requests = requests_, status.refused = refused_;
  return status;
}

CacheReport Engine::cache() const {
  CacheReport report;
  {
    const std::lock_guard lock(mutex_);
    report = cache_;
  }
  // Includes writes since the last step.
  if (memory_tier_) report.memory = memory_tier_->report();
  if (folder_) report.disk = folder_->report();
  return report;
}

CacheReport Engine::cache_of(std::uint64_t owner) const {
  CacheReport report = scheduler_.cache().ledger().report(owner);
  const std::lock_guard lock(mutex_);
  report.enabled = cache_.enabled, report.limit_bytes = cache_.limit_bytes;
  return report;
}

void Engine::clear_cache_of(std::uint64_t owner) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(clearing_of_, owner) == clearing_of_.end()) clearing_of_.push_back(owner);
  }
  wake_.notify_all();
}

void Engine::clear_cache() {
  {
    const std::lock_guard lock(mutex_);
    clearing_ = true;
  }
  wake_.notify_all();
}

bool Engine::drain(double timeout_ms) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto timeout = std::chrono::duration<double, std::milli>(timeout_ms);
  if (wake_.wait_for(lock, timeout, [this] { return over(); })) return true;
  cancelling_ = true;
  wake_.notify_all();
  wake_.wait(lock, [this] { return over(); });
  return false;
}

void Engine::force(std::vector<double> schedule, std::uint64_t seed, std::vector<std::int32_t> recorded) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return over(); });  // an end is reported before its slot is closed
  decoder_->force(std::move(schedule), seed).record(std::move(recorded));
}

void Engine::loop() {
  prefer_speed();
  costs_.learn(*decoder_);
  recall_file_.load(*decoder_);
  publish();
  {
    const std::lock_guard lock(mutex_);
    calibrated_ = true;
  }
  wake_.notify_all();
  while (wait_for_work()) {
    admit();
    scheduler_.step();
    if (scheduler_.idle()) recall_file_.store(*decoder_, scheduler_.now_ms());
    publish();
  }
  scheduler_.cancel_all();
  end_waiting(true);
  costs_.discard_if_far(decoder_->costs());
  recall_file_.store(*decoder_, scheduler_.now_ms(), true);
  publish();
}

/// False when the engine must stop. If every running request waits for its reader, it looks again every few
/// milliseconds.
bool Engine::wait_for_work() {
  constexpr auto kLookAgain = std::chrono::milliseconds(2);
  std::unique_lock lock(mutex_);
  const auto asked = [this] { return stopping_ || clearing_ || !clearing_of_.empty() || cancelling_; };
  if (scheduler_.idle()) {
    wake_.wait(lock, [&] { return asked() || !waiting_.empty(); });
  } else if (scheduler_.stalled()) {
    wake_.wait_for(lock, kLookAgain, asked);
  }
  if (stopping_) return false;
  const bool clear = std::exchange(clearing_, false);
  const std::vector<std::uint64_t> clear_of = std::exchange(clearing_of_, {});
  const bool cancel = std::exchange(cancelling_, false);
  lock.unlock();
  for (const std::uint64_t owner : clear_of) scheduler_.cache().clear(owner);
  if (clear) {
    scheduler_.cache().clear();
  }
  if (clear || !clear_of.empty()) {
    decoder_->release_unused();
    return_free_memory();
  }
  if (cancel) scheduler_.cancel_all();
  end_waiting(cancel);
  return true;
}

/// Ends the queued requests whose callers have left, or all queued requests.
void Engine::end_waiting(bool all) {
  std::vector<std::unique_ptr<Job>> gone;
  {
    const std::lock_guard lock(mutex_);
    for (auto& job : waiting_) {
      if (all || job->mailbox->cancelled()) gone.push_back(std::move(job));
    }
    std::erase(waiting_, nullptr);
    if (waiting_.empty() && !gone.empty()) idle_ = false;  // until their ends are posted
  }
  for (const auto& job : gone) scheduler_.end_unstarted(*job, Finish::kCancelled, {});
}

void Engine::admit() {
  while (scheduler_.has_free_slot()) {
    std::unique_ptr<Job> job;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      ++status_.running;  // publish() reports it again, or that it could not begin
      idle_ = false;
    }
    scheduler_.admit(std::move(job));
  }
}

/// Publishes the status for other threads, and wakes threads that wait for the last request to end.
void Engine::publish() {
  const CacheReport cache = scheduler_.cache().report();
  {
    const std::lock_guard lock(mutex_);
    status_ = scheduler_.status();
    cache_ = cache;
    idle_ = scheduler_.idle();
  }
  wake_.notify_all();
}

}  // namespace ft
