// A request, its events, and the ticket that connects the two.
//   Request  what to decode; it cannot be built invalid, so no later code checks it again
//   Event    one piece of an answer: text, reasoning, a part of a tool call, a token, the end with its
//            report; before them the prompt's tokens, if their log-probabilities were requested
//   Ticket   the caller's end: a bounded mailbox of events, and cancel
// The engine never waits for a reader. A slow reader finds the decoded events in the mailbox. When the
// mailbox is full, only its request pauses; it continues with the same tokens when there is room. Owner: the
// caller holds the Ticket, the engine its other end. Thread: Request is a value; one thread may use a Ticket
// while the engine thread posts. Cost: one lock per event. Errors: Request::make names the field.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sampling/logprobs.h"
#include "speculation/decoder.h"
#include "text/answer_event.h"
#include "text/grammar.h"
#include "text/stop_matcher.h"

namespace ft {

/// Events that a reader may leave unread before its request pauses, about 1 MB. A round that began with room
/// may post a few more.
inline constexpr std::size_t kMailboxEvents = 1 << 11;

struct RequestFields {
  std::vector<std::int32_t> prompt;
  std::vector<PromptImage> images;  // of the prompt, in order: sched/image_prompt.h
  std::string prompt_text;  // the rendered prompt; its end decides whether the answer begins with reasoning
  SlotOptions slot;         // sampling params, acceptance, depth, max_tokens, eos, bias, logprobs, predicted
  DrafterKind drafter = DrafterKind::kAuto;
  std::vector<std::string> stops;
  std::string tools;                       // JSON list of the tools offered, or empty
  bool calls_come_first = false;           // content that does not begin with a tool call has none
  std::shared_ptr<const Grammar> grammar;  // grammar of the content; null: anything is allowed
  int thinking_budget = -1;                // maximum tokens of reasoning; -1: no limit
  bool sees_all_hits = true;               // the report shows every hit in the prefix cache, whoever owns it
  bool score_prompt = false;   // log-probabilities of the prompt's tokens too; max_tokens 0: only these
  bool explain_depth = false;  // one event per round: why it drafts this many tokens
  bool parse = true;           // split reasoning and tool calls; false: all text is content
};

class Request {
 public:
  /// Sorts and checks the fields against a model with `vocabulary` ids.
  static Result<Request> make(RequestFields fields, int vocabulary);
  const RequestFields& fields() const { return fields_; }

 private:
  explicit Request(RequestFields fields) : fields_(std::move(fields)) {}
  RequestFields fields_;
};

/// The cost of a request and the effect of speculation on it. Times are in milliseconds.
struct Report {
  int prompt_tokens = 0, completion_tokens = 0;
  int cached_tokens = 0;     // of the prompt: continued from what slot.owner has in the prefix cache
  int kept_tokens = 0;       // of the prompt: computed, then kept in the prefix cache
  int reasoning_tokens = 0;  // of completion_tokens
  double prompt_ms = 0, decode_ms = 0;
  std::string drafter;  // "none" if nothing drafted
  bool engaged = false;
  std::string reason;  // why nothing was drafted; empty if something was
  SpeculationReport speculation;
  double tokens_per_second() const { return decode_ms > 0 ? completion_tokens * 1e3 / decode_ms : 0; }
};

/// A piece of an answer, with the engine's data about it.
struct Event : AnswerEvent {
  std::int32_t token = -1;           // kToken, kPromptToken
  std::string_view drafted_by;       // kToken: the drafter, if it is an accepted draft
  std::optional<Logprobs> logprobs;  // kToken, if requested; kPromptToken except the first
  Finish finish = Finish::kNone;     // kEnd
  bool by_stop_string = false;       // kEnd
  std::string stop_string;           // kEnd, if by_stop_string: the string that matched
  Error error;                       // kEnd, if finish is kError, or kCancelled but not by the caller
  Report report;                     // kEnd
};

/// Events in order, in memory that grows to the longest queue and is reused.
class EventQueue {
 public:
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  void push(Event event) {
    if (count_ == events_.size()) grow();
    events_[(first_ + count_++) % events_.size()] = std::move(event);
  }
  Event pop() {
    Event event = std::move(events_[first_]);
    first_ = (first_ + 1) % events_.size();
    --count_;
    return event;
  }

 private:
  void grow() {
    constexpr std::size_t kMin = 16;
    std::vector<Event> larger(std::max(kMin, 2 * events_.size()));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(events_[(first_ + i) % events_.size()]);
    events_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Event> events_;
  std::size_t first_ = 0, count_ = 0;
};

/// The two ends of one answer share a Mailbox.
class Mailbox {
 public:
  explicit Mailbox(std::size_t limit = kMailboxEvents) : limit_(limit) {}

  /// Never waits. After a cancel only the end is accepted.
  void post(Event event);
  /// Calls on_event's function if an event was posted since the last call.
  void notify();
  /// Waits for the next event. Do not call it after kEnd.
  Event next();
  /// The next event, if there is one now.
  std::optional<Event> try_next();
  /// Sets the callback (empty: none). It runs on the engine thread after each step that posted events; `over`
  /// is true on the last call. On return, the old callback has finished for good.
  void on_event(std::function<void(bool over)> notify);
  void cancel();
  bool cancelled() const;
  /// True once it reaches its limit, until half of it has been read.
  bool full() const;

 private:
  void note_read();
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  EventQueue events_;
  bool cancelled_ = false, full_ = false;
  bool posted_ = false;      // since the last notify()
  bool over_ = false;        // the end was posted
  std::mutex notify_mutex_;  // held while notify_ runs
  std::function<void(bool over)> notify_;
};

class Ticket {
 public:
  explicit Ticket(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  Ticket(Ticket&&) noexcept = default;
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(mailbox_, other.mailbox_);
    return *this;
  }
  /// Cancels the request, because no reader is left.
  ~Ticket() {
    if (!mailbox_) return;
    mailbox_->on_event({});
    mailbox_->cancel();
  }

  Event next() { return mailbox_->next(); }
  std::optional<Event> try_next() { return mailbox_->try_next(); }
  /// See Mailbox::on_event.
  void on_event(std::function<void(bool over)> notify) { mailbox_->on_event(std::move(notify)); }
  /// Frees the slot at the next round; kEnd with kCancelled follows.
  void cancel() { mailbox_->cancel(); }

 private:
  std::shared_ptr<Mailbox> mailbox_;
};

std::string_view finish_name(Finish finish);

}  // namespace ft
