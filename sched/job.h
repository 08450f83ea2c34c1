// One request on its way through the engine: what was asked, where its events go, its slot while it has one,
// and the times that its report and the counters need. Owner: the engine's queue, then the scheduler. Thread:
// the submitting one until it is queued, the engine thread from then on. Times: milliseconds of the
// scheduler's clock.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "sched/request.h"
#include "text/answer.h"

namespace ft {

struct Job {
  Job(Request job_request, std::shared_ptr<Mailbox> job_mailbox, double now_ms)
      : request(std::move(job_request)), mailbox(std::move(job_mailbox)), submitted_ms(now_ms) {}

  Request request;
  std::shared_ptr<Mailbox> mailbox;
  double submitted_ms;
  std::unique_ptr<Slot> slot;    // null while it waits
  std::optional<Answer> answer;  // from the slot's opening on
  bool by_stop_string = false;
  int reasoning_tokens = 0;
  bool unread = false;  // ended because nobody read
  bool paused = false;  // its reader does not read: skipped
  double full_since_ms = 0;

  int cached_tokens = 0;
  int kept_tokens = 0;      // of its prompt, behind the cached ones: kept for later prompts
  std::int64_t branch = 0;  // where its prompt leaves what earlier prompts share; 0: nowhere
  int passed_over = 0;      // steps in which another prompt went first
  double prompt_ms = 0, decode_ms = 0;
  double last_token_ms = 0;  // 0: none yet

  /// Behind its prompt, or on the way there.
  bool prefilling() const { return !slot->prefilled(); }
};

}  // namespace ft
