// Delivery to a request's reader and to the counters: scored tokens of the prompt, tokens and pieces of the
// answer, and its end.
#include <algorithm>

#include "sched/scheduler.h"
#include "speculation/not_drafted.h"

namespace ft {
namespace {

/// The reason that nothing was drafted, for the report, which always gives one.
std::string idle_reason(const Decoder& decoder, const RequestFields& fields, const Slot& slot) {
  const std::string problem = decoder.drafter_problem(fields.drafter);
  if (const auto why = ruled_out(fields.drafter, fields.slot.depth, problem)) {
    return not_drafted_text(*why, problem);
  }
  const bool lookup_alone = fields.drafter == DrafterKind::kLookup;
  return not_drafted_text(slot.report.rounds == 0                  ? NotDrafted::kNoRound
                          : slot.drafter_failed                    ? NotDrafted::kFailed
                          : slot.options.depth > 0 || lookup_alone ? NotDrafted::kNothingFound
                                                                   : NotDrafted::kWouldNotPay,
                          problem);
}

}  // namespace

bool Scheduler::take_token(Job& job, std::int32_t token, std::span<const float> logits, std::string_view by) {
  const SlotOptions& options = job.slot->options;
  Event event;
  event.kind = Event::Kind::kToken;
  event.token = token;
  event.drafted_by = by;
  if (options.logprobs >= 0)
    logprobs(logits, token, static_cast<std::size_t>(options.logprobs), event.logprobs.emplace());
  job.mailbox->post(std::move(event));
  if (std::find(options.eos.begin(), options.eos.end(), token) != options.eos.end()) return false;
  if (job.answer->in_reasoning()) ++job.reasoning_tokens;
  post_pieces(job, job.answer->push(token));
  job.by_stop_string = job.answer->matched_stop().has_value();
  return job.by_stop_string;
}

/// Posts events for the prompt's tokens: the first at once, the others when their logits come.
void Scheduler::score(Job& job) {
  const auto post = [&job](std::size_t at, std::optional<Logprobs> found) {
    Event event;
    event.kind = Event::Kind::kPromptToken;
    event.token = job.slot->tokens[at];
    event.logprobs = std::move(found);
    job.mailbox->post(std::move(event));
  };
  post(0, std::nullopt);
  job.slot->on_prompt_row = [&job, post](std::int64_t row, std::span<const float> logits) {
    const std::size_t next = static_cast<std::size_t>(row) + 1;
    Logprobs found;
    logprobs(logits, job.slot->tokens[next], static_cast<std::size_t>(job.slot->options.logprobs), found);
    post(next, std::move(found));
  };
}

void Scheduler::post_pieces(Job& job, std::vector<AnswerEvent> pieces) {
  for (AnswerEvent& piece : pieces) {
    Event event;
    static_cast<AnswerEvent&>(event) = std::move(piece);
    job.mailbox->post(std::move(event));
  }
}

void Scheduler::end_unstarted(Job& job, Finish finish, Error error) { end(job, finish, std::move(error)); }

/// The only place that ends requests, whether they had a slot, were refused one or never reached one.
void Scheduler::end(Job& job, Finish finish, Error error) {
  Event event;
  event.kind = Event::Kind::kEnd;
  event.finish = finish;
  event.error = std::move(error);
  if (job.slot) {
    post_pieces(job, job.answer->finish(finish != Finish::kStop));
    if (job.unread)
      event.error = {Code::kCancelled,
                     "the reader left events unread for too long; read an answer while it is decoded, or "
                     "request a shorter one"};
    event.by_stop_string = job.by_stop_string;
    if (job.by_stop_string) event.stop_string = job.request.fields().stops[*job.answer->matched_stop()];
    event.report = report_of(job);
  }
  count(job, event);
  job.mailbox->post(std::move(event));
  job.mailbox->notify();
}

void Scheduler::count(const Job& job, const Event& event) {
  status_.finished[std::string(finish_name(event.finish))] += 1;
  status_.request_time.add((now_ms() - job.submitted_ms) / 1e3);
  if (!job.slot) return;
  if (event.report.engaged) {
    status_.engaged += 1;
  } else {
    status_.not_engaged[event.report.reason] += 1;
  }
}

Report Scheduler::report_of(const Job& job) const {
  const Slot& slot = *job.slot;
  Report report;
  report.prompt_tokens = slot.prompt_tokens;
  report.cached_tokens = job.cached_tokens;
  report.kept_tokens = job.kept_tokens;
  report.completion_tokens = slot.output_tokens();
  report.reasoning_tokens = job.reasoning_tokens;
  report.prompt_ms = job.prompt_ms;
  report.decode_ms = job.decode_ms;
  report.speculation = slot.report;
  report.engaged = slot.report.drafted > 0;
  report.drafter = slot.drafter != nullptr ? std::string(slot.drafter->name()) : "none";
  if (!report.engaged) report.reason = idle_reason(decoder_, job.request.fields(), slot);
  return report;
}

}  // namespace ft
