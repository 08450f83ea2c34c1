// A request, what comes back from it, and the ticket that connects the two.
//   Request  what to decode; cannot be built invalid, so nothing behind it checks again
//   Event    one piece of an answer: text, reasoning, a tool call's parts, a token, the end with its report;
//            before them the prompt's tokens, if their log-probabilities were asked for
//   Ticket   the caller's end: a bounded mailbox of events, and cancel
// The engine never waits for a reader: a slow one finds what was decoded meanwhile in the box, and while the
// box is full that request alone pauses; it goes on with the same tokens when there is room. Owner: the
// caller holds Ticket, the engine its other end. Threads: Request is a value; Ticket may be used by one
// thread while the engine thread posts. Cost: one lock an event. Errors: Request::make names the field.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sampling/logprobs.h"
#include "spec/decoder.h"
#include "text/grammar.h"
#include "text/stop_matcher.h"

namespace ft {

/// Events that a reader may leave unread before its request pauses, about 1 MB. A round that began with room
/// may post a few more.
inline constexpr std::size_t kMailboxEvents = 1 << 11;

struct RequestFields {
  std::vector<std::int32_t> prompt;
  std::string prompt_text;  // the rendered prompt; its end decides whether the answer begins with reasoning
  SlotOptions slot;         // sampler, acceptance, depth, max_tokens, eos, bias, logprobs, predicted
  DrafterKind drafter = DrafterKind::kAuto;
  std::vector<std::string> stops;
  std::string tools;                       // JSON list of the tools offered, or empty
  bool calls_come_first = false;           // content that does not begin with a call has none
  std::shared_ptr<const Grammar> grammar;  // what the content must follow; null: anything
  int thinking_budget = -1;                // tokens of reasoning, at most; -1: no limit
  bool score_prompt = false;   // log-probabilities of the prompt's tokens too; max_tokens 0: nothing else
  bool explain_depth = false;  // an event a round: why it drafts as many as it does
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

/// What a request cost and what speculation did for it. Times in milliseconds.
struct Report {
  int prompt_tokens = 0, completion_tokens = 0;
  int cached_tokens = 0;     // of the prompt: continued from the prefix cache
  int kept_tokens = 0;       // of the prompt: computed, and in the prefix cache from then on
  int reasoning_tokens = 0;  // of completion_tokens
  double prompt_ms = 0, decode_ms = 0;
  std::string drafter;  // "none" if nothing drafted
  bool engaged = false;
  std::string reason;  // why not engaged; empty if engaged
  SpeculationReport speculation;
  double tokens_per_second() const { return decode_ms > 0 ? completion_tokens * 1e3 / decode_ms : 0; }
};

struct Event {
  enum class Kind {
    kPromptToken,
    kToken,
    kText,
    kReasoning,
    kToolBegin,
    kToolArguments,
    kToolEnd,
    kDepth,
    kEnd
  };
  Kind kind = Kind::kText;
  std::string text;                  // of text kinds; the tool's name for kToolBegin; the reason for kDepth
  std::int32_t token = -1;           // kToken, kPromptToken
  bool drafted = false;              // kToken: an accepted draft
  std::optional<Logprobs> logprobs;  // kToken, if asked for; kPromptToken but for the first
  Finish finish = Finish::kNone;     // kEnd
  bool by_stop_string = false;       // kEnd
  std::string stop_string;           // kEnd, if by_stop_string: which
  std::string error;                 // kEnd, if finish is kError, or kCancelled and not by the caller
  Report report;                     // kEnd
};

/// Events in order, in memory that grows to the most that ever waited and is used again.
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
    constexpr std::size_t kLeast = 16;
    std::vector<Event> larger(std::max(kLeast, 2 * events_.size()));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(events_[(first_ + i) % events_.size()]);
    events_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Event> events_;
  std::size_t first_ = 0, count_ = 0;
};

/// The two ends of one answer share this.
class Mailbox {
 public:
  explicit Mailbox(std::size_t limit = kMailboxEvents) : limit_(limit) {}

  /// Never waits. After a cancel nothing but the end is taken.
  void post(Event event);
  /// Calls on_event's function if something was posted since the last time.
  void tell();
  /// Waits for the next event; after kEnd there is none.
  Event next();
  /// The next event if there is one now.
  std::optional<Event> try_next();
  /// `notify` is called on the engine thread after a step that posted events, and with the end, when it gets
  /// true; empty: nobody. When this returns, the one before is not running and never will again.
  void on_event(std::function<void(bool over)> notify);
  void cancel();
  bool cancelled() const;
  /// At its limit, and from then on until half of it has been read.
  bool full() const;

 private:
  void note_read();
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  EventQueue events_;
  bool cancelled_ = false, full_ = false;
  bool posted_ = false;      // since the last tell()
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
  /// Nobody will read any more: cancels.
  ~Ticket() {
    if (!mailbox_) return;
    mailbox_->on_event({});
    mailbox_->cancel();
  }

  Event next() { return mailbox_->next(); }
  std::optional<Event> try_next() { return mailbox_->try_next(); }
  /// See Mailbox::on_event.
  void on_event(std::function<void(bool over)> notify) { mailbox_->on_event(std::move(notify)); }
  /// The slot is gone at the next round; kEnd with kCancelled follows.
  void cancel() { mailbox_->cancel(); }

 private:
  std::shared_ptr<Mailbox> mailbox_;
};

std::string_view finish_name(Finish finish);

}  // namespace ft
