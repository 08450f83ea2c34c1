#include "sched/engine.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "sched/calibrate.h"

namespace ft {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Why nothing was drafted, for the report: never silent.
std::string idle_reason(const Decoder& decoder, const RequestFields& fields, const Slot& slot) {
  if (fields.drafter == DrafterKind::kNone) return "the drafter is none";
  if (fields.slot.depth == 0) return "the depth is 0";
  std::string problem = decoder.drafter_problem(fields.drafter);
  if (!problem.empty()) return problem;
  if (slot.report.rounds == 0) return "no round was run";
  if (slot.drafter == nullptr) return "the drafter failed; the answer went on without it";
  if (slot.options.depth > 0 || fields.drafter == DrafterKind::kLookup) return "no draft was found";
  return "drafting would not have paid at the measured costs";
}

}  // namespace

struct Engine::Job {
  Job(Request job_request, std::shared_ptr<Mailbox> job_mailbox)
      : request(std::move(job_request)), mailbox(std::move(job_mailbox)) {}

  Request request;
  std::shared_ptr<Mailbox> mailbox;
  std::unique_ptr<Slot> slot;
  std::optional<Answer> answer;
  bool by_stop_string = false;
  bool unread = false;  // ended because nobody read
  std::optional<Clock::time_point> full_since;
  double prompt_ms = 0, decode_ms = 0;
};

Result<std::unique_ptr<Engine>> Engine::start(Backend& backend, const Model& model,
                                              const Tokenizer& tokenizer, const EngineOptions& options) {
  FT_ASSIGN(std::unique_ptr<Decoder> decoder, Decoder::make(backend, model, options.decoder));
  std::unique_ptr<Engine> engine(new Engine(std::move(decoder), tokenizer, options));
  std::unique_lock lock(engine->mutex_);
  engine->wake_.wait(lock, [&] { return engine->calibrated_; });
  lock.unlock();
  return engine;
}

Engine::Engine(std::unique_ptr<Decoder> decoder, const Tokenizer& tokenizer, const EngineOptions& options)
    : decoder_(std::move(decoder)),
      tokenizer_(tokenizer),
      queue_(options.queue),
      unread_events_(options.unread_events),
      unread_ms_(options.unread_ms),
      thread_([this] { loop(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<Ticket> Engine::submit(Request request) {
  auto mailbox = std::make_shared<Mailbox>(unread_events_);
  auto job = std::make_unique<Job>(std::move(request), mailbox);
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= queue_) {
      return Error{Code::kExhausted, "too many requests are waiting; try again when some have ended"};
    }
    waiting_.push_back(std::move(job));
  }
  wake_.notify_all();
  return Ticket(std::move(mailbox));
}

void Engine::force(std::vector<double> schedule, std::uint64_t seed, std::vector<std::int32_t> recorded) {
  const std::lock_guard lock(mutex_);
  decoder_->force(std::move(schedule), seed).record(std::move(recorded));
}

void Engine::loop() {
  calibrate(*decoder_);
  {
    const std::lock_guard lock(mutex_);
    calibrated_ = true;
  }
  wake_.notify_all();
  for (;;) {
    if (!wait_for_work()) break;
    admit();
    try {
      step();
    } catch (const std::exception& failure) {
      // The backend failed under a step: the timelines of that step are lost, so are their requests.
      for (const auto& job : running_) {
        if (job->slot->finish != Finish::kError && !job->slot->timeline->lost()) continue;
        job->slot->finish = Finish::kError;
        job->slot->error = std::string("the backend failed: ") + failure.what();
      }
    }
    retire();
  }
  for (const auto& job : running_) job->slot->finish = Finish::kCancelled;
  retire();
  const std::lock_guard lock(mutex_);
  for (const auto& job : waiting_) end(*job, Finish::kCancelled, {});
}

/// False when the engine is to stop. Where every running request waits for its reader, it looks again every
/// few milliseconds.
bool Engine::wait_for_work() {
  constexpr auto kLookAgain = std::chrono::milliseconds(2);
  std::unique_lock lock(mutex_);
  const bool all_full = std::all_of(running_.begin(), running_.end(), [](const auto& job) {
    return job->mailbox->full() && !job->mailbox->cancelled();
  });
  if (running_.empty()) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
  } else if (all_full) {
    wake_.wait_for(lock, kLookAgain, [this] { return stopping_; });
  }
  return !stopping_;
}

/// True while nobody makes room in the request's box; ends it if that lasts.
bool Engine::paused(Job& job) {
  if (!job.mailbox->full()) {
    job.full_since.reset();
    return false;
  }
  if (!job.full_since) job.full_since = Clock::now();
  if (ms_since(*job.full_since) > unread_ms_) {
    job.slot->finish = Finish::kCancelled;
    job.unread = true;
  }
  return true;
}

void Engine::admit() {
  while (static_cast<int>(running_.size()) < decoder_->options().slots) {
    std::unique_ptr<Job> job;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Status started;
    try {
      started = start_slot(*job);
    } catch (const std::exception& failure) {
      started = Error{Code::kExhausted, std::string("the request could not begin: ") + failure.what()};
    }
    if (started.ok()) {
      running_.push_back(std::move(job));
    } else {
      end(*job, Finish::kError, started.error().message);
    }
  }
}

Status Engine::start_slot(Job& job) {
  const RequestFields& fields = job.request.fields();
  AnswerOptions options;
  options.stops = fields.stops;
  options.split_reasoning = fields.parse;
  options.starts_in_reasoning = fields.parse && prompt_opens_thinking(fields.prompt_text);
  options.parse_tools = fields.parse && !fields.tools.empty();
  options.tools_json = fields.tools;
  FT_ASSIGN(Answer answer, Answer::create(tokenizer_, options));
  FT_ASSIGN(job.slot, decoder_->open(fields.prompt, fields.slot, fields.drafter));
  job.answer.emplace(std::move(answer));
  job.slot->on_token = [this, &job](std::int32_t token, std::span<const float> logits, bool drafted) {
    return take_token(job, token, logits, drafted);
  };
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

bool Engine::take_token(Job& job, std::int32_t token, std::span<const float> logits, bool drafted) {
  const SlotOptions& options = job.slot->options;
  Event event;
  event.kind = Event::Kind::kToken;
  event.token = token;
  event.drafted = drafted;
  if (options.logprobs >= 0)
    logprobs(logits, token, static_cast<std::size_t>(options.logprobs), event.logprobs.emplace());
  job.mailbox->post(std::move(event));
  if (std::find(options.eos.begin(), options.eos.end(), token) != options.eos.end()) return false;
  post_pieces(job, job.answer->push(token));
  job.by_stop_string = job.answer->matched_stop().has_value();
  return job.by_stop_string;
}

void Engine::post_pieces(Job& job, std::vector<AnswerEvent> pieces) {
  for (AnswerEvent& piece : pieces) {
    Event event;
    switch (piece.kind) {
      case AnswerEvent::Kind::kContent:
        event.kind = Event::Kind::kText;
        break;
      case AnswerEvent::Kind::kReasoning:
        event.kind = Event::Kind::kReasoning;
        break;
      case AnswerEvent::Kind::kToolBegin:
        event.kind = Event::Kind::kToolBegin;
        break;
      case AnswerEvent::Kind::kToolArguments:
        event.kind = Event::Kind::kToolArguments;
        break;
      case AnswerEvent::Kind::kToolEnd:
        event.kind = Event::Kind::kToolEnd;
        break;
    }
    event.text = std::move(piece.text);
    job.mailbox->post(std::move(event));
  }
}

/// One prompt chunk for every slot that still needs one, then a round for those that are ready: a long prompt
/// does not stop the others' answers.
void Engine::step() {
  ready_.clear();
  for (const auto& job : running_) {
    if (job->mailbox->cancelled()) job->slot->finish = Finish::kCancelled;
    if (job->slot->finish != Finish::kNone || paused(*job)) continue;
    if (!job->slot->prefilled()) prefill(*job);
    if (job->slot->finish == Finish::kNone && job->slot->prefilled()) ready_.push_back(job->slot.get());
  }
  if (!ready_.empty()) round();
}

void Engine::prefill(Job& job) {
  const Clock::time_point start = Clock::now();
  const Status status = decoder_->prefill(*job.slot, decoder_->options().chunk);
  job.prompt_ms += ms_since(start);
  if (status.ok()) return;
  job.slot->finish = Finish::kError;
  job.slot->error = status.error().message;
}

void Engine::round() {
  const Clock::time_point start = Clock::now();
  const RoundShape shape = decoder_->round(ready_);
  const double ms = ms_since(start);
  for (const auto& job : running_) {
    if (std::find(ready_.begin(), ready_.end(), job->slot.get()) != ready_.end()) job->decode_ms += ms;
  }
  if (shape.slots == 1) decoder_->costs().observe(shape.rows, shape.passes, ms);
}

void Engine::retire() {
  for (auto& job : running_) {
    if (job->slot->finish == Finish::kNone) continue;
    end(*job, job->slot->finish, job->slot->error);
    job.reset();
  }
  std::erase(running_, nullptr);
}

/// The one place where ends are made: of a request that had a slot, was refused one or never got so far.
void Engine::end(Job& job, Finish finish, std::string error) {
  Event event;
  event.kind = Event::Kind::kEnd;
  event.finish = finish;
  event.error = std::move(error);
  if (job.slot) {
    post_pieces(job, job.answer->finish());
    if (job.unread) {
      event.error = "the reader left " + std::to_string(unread_events_) +
                    " events unread; read an answer while it is decoded, or ask for a shorter one";
    }
    event.by_stop_string = job.by_stop_string;
    event.report = report_of(job);
    decoder_->close(*job.slot);  // before the end is posted, so that who reads it finds the slot free
  }
  job.mailbox->post(std::move(event));
}

Report Engine::report_of(const Job& job) const {
  const Slot& slot = *job.slot;
  Report report;
  report.prompt_tokens = slot.prompt_tokens;
  report.completion_tokens = slot.output_tokens();
  report.prompt_ms = job.prompt_ms;
  report.decode_ms = job.decode_ms;
  report.speculation = slot.report;
  report.engaged = slot.report.drafted > 0;
  report.drafter = slot.drafter != nullptr ? std::string(slot.drafter->name()) : "none";
  if (!report.engaged) report.reason = idle_reason(*decoder_, job.request.fields(), slot);
  return report;
}

}  // namespace ft
