#include "sched/scheduler.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>

#include "base/clock.h"
#include "sched/answer_constraint.h"

namespace ft {
namespace {

/// Exhausted memory has a separate code: the same request may work later.
Error failed(const char* what, const std::exception& failure) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr;
  return {memory ? Code::kExhausted : Code::kIo, std::string(what) + failure.what()};
}

SchedulerOptions with_clock(SchedulerOptions options) {
  if (!options.now_ms) options.now_ms = steady_ms;
  return options;
}

}  // namespace

Scheduler::Scheduler(Decoder& decoder, const Tokenizer& tokenizer, const ChatFormat& format,
                     SchedulerOptions options)
    : decoder_(decoder),
      tokenizer_(tokenizer),
      marks_(tokenizer, decoder.model().facts.eos_ids, format),
      options_(with_clock(std::move(options))),
      cache_(decoder.room(), decoder.options().cache_bytes, options_.tiers, options_.cache_share) {
  status_.slots = decoder.options().slots;
  decoder_.meanwhile([this] { deliver(); });
}

Scheduler::~Scheduler() {
  cancel_all();
  decoder_.meanwhile({});
}

bool Scheduler::has_free_slot() const { return static_cast<int>(running_.size()) < decoder_.options().slots; }

bool Scheduler::stalled() const {
  return !running_.empty() && std::all_of(running_.begin(), running_.end(), [](const auto& job) {
    return job->mailbox->full() && !job->mailbox->cancelled();
  });
}

void Scheduler::admit(std::unique_ptr<Job> job) {
  deliver();  // a beginning may take long
  Status started;
  if (!lost().empty()) return end(*job, Finish::kError, Error{Code::kIo, lost()});
  try {
    started = start(*job);
  } catch (const BackendLost& failure) {
    started = Error{Code::kIo, std::string("the backend is lost: ") + failure.what()};
    lose_backend(failure.what());
  } catch (const std::exception& failure) {
    started = failed("the request could not begin: ", failure);
  }
  if (!started.ok()) return end(*job, Finish::kError, started.error());
  status_.queue_time.add((now_ms() - job->submitted_ms) / 1e3);
  status_.prompt_tokens += job->slot->prompt_tokens;
  status_.cached_tokens += job->cached_tokens;
  status_.reused_tokens += job->reused_tokens;
  if (!job->prefilling() && job->cached_tokens < job->reused_tokens) {
    // Another key's state serves the whole prompt: this key now owns the end too, as if it had computed it.
    if (keep(*job, PrefixCache::Place::kPrompt)) job->kept_tokens = job->reused_tokens - job->cached_tokens;
  }
  running_.push_back(std::move(job));
}

Status Scheduler::start(Job& job) {
  const RequestFields& fields = job.request.fields();
  const ChatFormat& format = marks_.format();
  AnswerOptions options;
  options.stops = fields.stops;
  options.split_reasoning = fields.parse;
  options.starts_in_reasoning = fields.parse && prompt_opens_thinking(fields.prompt_text, format.reasoning);
  options.parse_tools = fields.parse && !fields.tools.empty();
  options.tools_json = fields.tools, options.calls_come_first = fields.calls_come_first;
  options.tool_call_ends_reasoning = fields.grammar == nullptr || fields.grammar->on_sight();
  FT_ASSIGN(Answer answer, Answer::create(tokenizer_, format, options));
  FT_ASSIGN(std::unique_ptr<Constraint> constraint, AnswerConstraint::make(fields, tokenizer_, marks_));
  const Drafter* drafter = decoder_.drafter(fields.drafter);
  PrefixCache::Found found;  // empty if all rows of the prompt must be computed
  if (!fields.score_prompt) {
    const bool drafts = drafter != nullptr && drafter->remembers();
    if (!fields.images.empty()) job.keys = content_keys(fields.prompt, fields.images);
    found = cache_.find(fields.images.empty() ? fields.prompt : job.keys, drafts, row_ms_, running_.empty(),
                        user_of(job));
  }
  FT_ASSIGN(job.slot, decoder_.open(fields.prompt, fields.slot, fields.drafter, found.hit, fields.images));
  job.slot->constraint = std::move(constraint);
  job.answer.emplace(std::move(answer));
  job.reused_tokens = static_cast<int>(found.hit.length);
  job.cached_tokens = static_cast<int>(found.shown);
  job.shared_prefix = found.shared;
  job.own_prefix = found.own;
  job.slot->on_token = [this, &job](std::int32_t token, std::span<const float> logits, std::string_view by) {
    return take_token(job, token, logits, by);
  };
  if (fields.score_prompt) score(job);
  if (fields.explain_depth) {
    job.slot->on_depth = [&job](std::string why) {
      Event event;
      event.kind = Event::Kind::kDepth;
      event.text = std::move(why);
      job.mailbox->post(std::move(event));
    };
  }
  return {};
}

void Scheduler::step() {
  try {
    work();
  } catch (const BackendLost& failure) {
    lose_backend(failure.what());
  } catch (const std::exception& failure) {
    // The backend failed during a step: the timelines of this step are lost, and so are their requests.
    for (const auto& job : running_) {
      if (job->slot->finish != Finish::kError && !job->slot->timeline->lost()) continue;
      job->slot->finish = Finish::kError;
      job->slot->error = failed("the backend failed: ", failure);
    }
  }
  retire();
}

/// No later step can succeed: every request ends, and later requests get the reason.
void Scheduler::lose_backend(const std::string& why) {
  status_.lost = "the backend is lost: " + why + "; restart the program";
  for (const auto& job : running_) {
    job->slot->finish = Finish::kError;
    job->slot->error = Error{Code::kIo, status_.lost};
  }
}

void Scheduler::work() {
  for (const auto& job : running_) watch(*job);
  // Rounds get a little more than half of the time, even if the minimum chunk takes long.
  const bool due = prompt_debt_ms_ <= 0 || !decoding();
  if (Job* job = due ? next_prompt() : nullptr; job != nullptr) {
    deliver();
    prefill(*job);
  }
  ready_.clear(), decoding_.clear();
  for (const auto& job : running_) {
    if (job->slot->finish != Finish::kNone || job->paused || job->prefilling()) continue;
    if (job->slot->options.max_tokens == 0) {  // only its prompt was requested
      job->slot->finish = Finish::kLength;
      continue;
    }
    ready_.push_back(job->slot.get());
    decoding_.emplace_back(job.get(), job->slot->report);
  }
  if (!ready_.empty()) round();
  if (ready_.empty() || !device_computes_) deliver();
}

/// Notifies the readers of events posted since the last call.
void Scheduler::deliver() {
  for (const auto& job : running_) job->mailbox->notify();
}

/// Checks whether the caller left or does not read.
void Scheduler::watch(Job& job) {
  if (job.mailbox->cancelled()) job.slot->finish = Finish::kCancelled;
  const bool full = job.mailbox->full();
  if (full && !job.paused) job.full_since_ms = now_ms();
  job.paused = full;
  if (!full || job.slot->finish != Finish::kNone || now_ms() - job.full_since_ms <= options_.unread_ms)
    return;
  job.slot->finish = Finish::kCancelled;
  job.unread = true;
}

void Scheduler::round() {
  const double start = now_ms();
  const RoundShape shape = decoder_.round(ready_);
  const double now = now_ms();
  round_ms_ = now - start;
  device_computes_ = shape.device_ms > 0;
  prompt_debt_ms_ -= round_ms_;
  status_.rounds += 1;
  status_.round_seconds += round_ms_ / 1e3;
  for (const auto& [job, before] : decoding_) {
    job->decode_ms += round_ms_;
    note_round(*job, before, now);
  }
  decoder_.observe(shape, round_ms_);
}

void Scheduler::note_round(Job& job, const SpeculationReport& before, double now) {
  const SpeculationReport& after = job.slot->report;
  status_.slot_rounds += after.rounds - before.rounds;
  status_.drafted += after.drafted - before.drafted;
  status_.accepted += after.accepted - before.accepted;
  for (std::size_t i = 0; i < after.drafted_at.size(); ++i) {
    status_.drafted_at[i] += after.drafted_at[i] - before.drafted_at[i];
    status_.accepted_at[i] += after.accepted_at[i] - before.accepted_at[i];
  }
  for (std::size_t i = 0; i < after.by_drafter.size(); ++i) {
    const DrafterShare& now_at = after.by_drafter[i];
    const DrafterShare& then = before.by_drafter[i];
    if (now_at.rounds == then.rounds) continue;
    status_.by_drafter[std::string(now_at.name)].add(
        {{}, now_at.rounds - then.rounds, now_at.drafted - then.drafted, now_at.accepted - then.accepted});
  }
  const std::int64_t emitted = after.emitted - before.emitted;
  if (emitted <= 0) return;
  status_.emitted += emitted;
  if (job.last_token_ms == 0) {
    status_.time_to_first_token.add((now - job.submitted_ms) / 1e3);
  } else {
    status_.inter_token.add((now - job.last_token_ms) / 1e3 / static_cast<double>(emitted), emitted);
  }
  job.last_token_ms = now;
}

CacheUser Scheduler::user_of(const Job& job, bool owns) const {
  const RequestFields& fields = job.request.fields();
  const bool sees_all = options_.cache_share == CacheShare::kKeys || fields.sees_all_hits;
  return {fields.slot.owner, sees_all, first_step(), owns};
}

/// Keeps the slot's current state for prompts with the same prefix, with its owner or without one. False if
/// it is already kept or cannot be kept.
bool Scheduler::keep(Job& job, PrefixCache::Place place, bool owns) {
  const Slot& slot = *job.slot;
  if (!lost().empty()) return false;
  const std::int64_t length = slot.timeline->length();
  if (slot.finish == Finish::kError || slot.timeline->lost() || length == 0) return false;
  const auto size = static_cast<std::size_t>(length);
  const auto tokens = std::span<const std::int32_t>(slot.tokens).first(size);
  if (!slot.images.empty()) job.keys = content_keys(tokens, slot.images);
  try {
    return cache_.store(
        slot.images.empty() ? tokens : std::span<const std::int32_t>(job.keys),
        slot.drafter != nullptr && slot.drafter->remembers(), [&] { return decoder_.snapshot(slot); }, place,
        user_of(job, owns));
  } catch (const BackendLost& failure) {
    lose_backend(failure.what());
  } catch (const std::exception&) {  // the answer does not need it
  }
  return false;
}

void Scheduler::retire() {
  if (std::ranges::any_of(running_, [](const auto& job) { return job->slot->finish != Finish::kNone; }))
    deliver();  // an end may take long
  for (auto& job : running_) {
    if (job->slot->finish == Finish::kNone) continue;
    end(*job, job->slot->finish, job->slot->error);  // first, because a caller must not wait for a snapshot
    keep(*job, job->prefilling() ? PrefixCache::Place::kPrompt : PrefixCache::Place::kAnswer);
    decoder_.close(*job->slot);
    job.reset();
  }
  std::erase(running_, nullptr);
}

void Scheduler::cancel_all() {
  for (const auto& job : running_) {
    if (job->slot->finish == Finish::kNone) job->slot->finish = Finish::kCancelled;
  }
  retire();
}

const EngineStatus& Scheduler::status() {
  status_.running = static_cast<int>(running_.size());
  status_.prefilling = status_.paused = 0;
  for (const auto& job : running_) {
    status_.prefilling += job->prefilling() ? 1 : 0;
    status_.paused += job->paused ? 1 : 0;
  }
  return status_;
}

}  // namespace ft
