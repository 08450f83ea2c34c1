#include "sched/request.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "sched/image_prompt.h"

namespace ft {
namespace {

Error wrong(std::string_view field, std::string_view rule, double found) {
  return Error{Code::kInvalid, fmt::format("{} must be {}, found {}", field, rule, found)};
}

Status check_sampler(const SamplingParams& sampler) {
  Status status;
  each_sampling_number([&](const auto& number) {
    const auto found = sampler.*number.value;
    if (!status.ok() || number.takes(found)) return;
    const std::string rule = number.above_low
                                 ? fmt::format("above {} and at most {}", number.low, number.high)
                                 : fmt::format("{} to {}", number.low, number.high);
    status = wrong(number.name, rule, static_cast<double>(found));
  });
  return status;
}

Status check_bias(std::vector<LogitBias>& bias, int vocabulary) {
  std::stable_sort(bias.begin(), bias.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  for (std::size_t i = 0; i < bias.size(); ++i) {
    if (bias[i].token < 0 || bias[i].token >= vocabulary) {
      return Error{Code::kInvalid, fmt::format("logit_bias: token id {} is outside the vocabulary of {}",
                                               bias[i].token, vocabulary)};
    }
    if (i > 0 && bias[i - 1].token == bias[i].token) {
      return Error{Code::kInvalid, fmt::format("logit_bias: token id {} is given twice", bias[i].token)};
    }
    if (std::isnan(bias[i].value)) return wrong("logit_bias", "a number", bias[i].value);
  }
  return {};
}

Status check_stops(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStops) {
    return Error{Code::kInvalid, fmt::format("stop: at most {} strings, found {}", kMaxStops, stops.size())};
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) return Error{Code::kInvalid, "stop: an empty string would end every answer; omit it"};
    if (stop.size() > kMaxStopBytes) {
      return Error{Code::kInvalid,
                   fmt::format("stop: at most {} bytes, found {}", kMaxStopBytes, stop.size())};
    }
  }
  return {};
}

}  // namespace

Result<Request> Request::make(RequestFields fields, int vocabulary) {
  FT_TRY(check_sampler(fields.slot.sampler));
  FT_TRY(check_bias(fields.slot.bias, vocabulary));
  FT_TRY(check_stops(fields.stops));
  if (fields.prompt.empty()) return Error{Code::kInvalid, "the prompt is empty; give at least one token"};
  for (const std::int32_t token : fields.prompt) {
    if (token >= 0 && token < vocabulary) continue;
    return Error{Code::kInvalid,
                 fmt::format("prompt: token id {} is outside the vocabulary of {}", token, vocabulary)};
  }
  FT_TRY(check_images(fields.images, fields.prompt.size()));
  if (fields.slot.max_tokens < (fields.score_prompt ? 0 : 1)) {
    return wrong("max_tokens", "at least 1", fields.slot.max_tokens);
  }
  if (fields.score_prompt && fields.slot.logprobs < 0) {
    return wrong("logprobs", "0 or more if the prompt is scored", fields.slot.logprobs);
  }
  if (fields.thinking_budget < -1) {
    return wrong("thinking_budget", "0 or more, or -1 for no limit", fields.thinking_budget);
  }
  if (fields.slot.depth < -1 || fields.slot.depth > kMaxDraftTokens) {
    return wrong("depth", fmt::format("auto or 0 to {}", kMaxDraftTokens), fields.slot.depth);
  }
  if (fields.slot.logprobs < -1 || fields.slot.logprobs > static_cast<int>(kMaxTopLogprobs)) {
    return wrong("logprobs", fmt::format("0 to {}", kMaxTopLogprobs), fields.slot.logprobs);
  }
  return Request(std::move(fields));
}

void Mailbox::post(Event event) {
  const std::lock_guard lock(mutex_);
  if (cancelled_ && event.kind != Event::Kind::kEnd) return;
  over_ = over_ || event.kind == Event::Kind::kEnd;
  events_.push(std::move(event));
  if (events_.size() >= limit_) full_ = true;
  posted_ = true;
  changed_.notify_all();
}

void Mailbox::notify() {
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    if (!posted_) return;
    posted_ = false;
    over = over_;
  }
  const std::lock_guard lock(notify_mutex_);
  if (notify_) notify_(over);
}

Event Mailbox::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !events_.empty(); });
  Event event = events_.pop();
  note_read();
  return event;
}

std::optional<Event> Mailbox::try_next() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  std::optional<Event> event(events_.pop());
  note_read();
  return event;
}

/// The mutex_ must be held.
void Mailbox::note_read() {
  if (events_.size() <= limit_ / 2) full_ = false;
}

void Mailbox::on_event(std::function<void(bool over)> notify) {
  const std::lock_guard lock(notify_mutex_);
  notify_ = std::move(notify);
}

void Mailbox::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool Mailbox::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

bool Mailbox::full() const {
  const std::lock_guard lock(mutex_);
  return full_;
}

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::kNone:
      return "none";
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kContext:
      return "length";
    case Finish::kCancelled:
      return "cancelled";
    case Finish::kError:
      return "error";
  }
  return "none";
}

}  // namespace ft
