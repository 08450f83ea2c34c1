// One request inside the engine: its fields, the target of its events, its slot while it has one, and the
// times for its report and the counters. Owner: the engine's queue, then the scheduler. Thread: the
// submitting one until it is queued, then the engine thread. Times: milliseconds of the scheduler's clock.
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
  std::optional<Answer> answer;  // set when the slot opens
  bool by_stop_string = false;
  int reasoning_tokens = 0;
  bool unread = false;  // ended because it was not read
  bool paused = false;  // skipped, because its reader does not read
  double full_since_ms = 0;

  std::vector<std::int32_t> keys;  // of a prompt with images in the prefix cache
  int reused_tokens = 0;           // of the prompt: those that were not computed again
  int cached_tokens = 0;           // of them: visible to the caller
  int kept_tokens = 0;             // prompt tokens after the cached ones that were kept for later prompts
  std::int64_t shared_prefix = 0;  // end of the prefix shared with earlier prompts; 0: none
  std::int64_t own_prefix = 0;     // the same, of prompts of the same owner
  int passed_over = 0;             // steps in which another prompt went first
  double prompt_ms = 0, decode_ms = 0;
  double last_token_ms = 0;  // 0: none yet

  /// True until the whole prompt is computed.
  bool prefilling() const { return !slot->prefilled(); }
};

}  // namespace ft
