#include "text/chat_format/harmony_parser.h"

#include <algorithm>

#include "text/chat_format/harmony_tags.h"
#include "text/json_text.h"
#include "text/tags.h"

namespace ft {

namespace {

constexpr int kMaxArgumentsDepth = 100;
constexpr size_t kMaxHeader = 512;  // bytes before <|message|> that are read

/// The place and size of the first tag in a text; without a tag, the place where one may begin at its end.
struct FoundTag {
  size_t at = 0, size = 0;  // size 0: none
};

template <size_t N>
FoundTag find_mark(std::string_view text, const std::string_view (&tags)[N]) {
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at);
    for (const std::string_view tag : tags) {
      if (rest.starts_with(tag)) return {at, tag.size()};
      if (tag.starts_with(rest)) return {at, 0};
    }
  }
  return {text.size(), 0};
}

/// The word from `at` on: up to white space or a tag.
std::string_view word_at(std::string_view header, size_t at) {
  const std::string_view rest = header.substr(at);
  return rest.substr(0, std::min(rest.find_first_of(" \t\r\n<"), rest.size()));
}

/// After " to=", also at the beginning.
std::string_view recipient_of(std::string_view header) {
  constexpr std::string_view kTo = "to=";
  for (size_t at = header.find(kTo); at != std::string_view::npos; at = header.find(kTo, at + 1)) {
    const bool begins =
        at == 0 || kTagSpace.find(header[at - 1]) != std::string_view::npos || header[at - 1] == '>';
    if (begins) return word_at(header, at + kTo.size());
  }
  return {};
}

std::string_view channel_of(std::string_view header) {
  const size_t at = header.find(harmony_tags::kChannel);
  return at == std::string_view::npos ? std::string_view()
                                      : word_at(header, at + harmony_tags::kChannel.size());
}

/// Whether a text begins as a header does.
TagMatch::Kind begins_header(std::string_view text) {
  constexpr std::string_view kBeginnings[] = {harmony_tags::kChannel, harmony_tags::kStart,
                                              harmony_tags::kConstrain, harmony_tags::kMessage, "to="};
  text.remove_prefix(std::min(text.find_first_not_of(kTagSpace), text.size()));
  TagMatch::Kind found = TagMatch::kNone;
  for (const std::string_view begin : kBeginnings) found = std::max(found, match_tag(text, begin, {}).kind);
  return found;
}

std::string_view trimmed_header(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(kTagSpace), text.size());
  return text.substr(first, text.find_last_not_of(kTagSpace) + 1 - first);
}

}  // namespace

void HarmonyParser::begin_in_reasoning() { state_ = State::kBody, kind_ = Kind::kReasoning; }

void HarmonyParser::push(std::string_view text, std::vector<AnswerEvent>& out) {
  held_ += text;
  while (!held_.empty() && step(out) == Progress::kMore) {
  }
}

CallParser::Progress HarmonyParser::step(std::vector<AnswerEvent>& out) {
  switch (state_) {
    case State::kStart:
      return step_start();
    case State::kHeader:
      return step_header();
    case State::kBody:
      return step_body(out);
  }
  return Progress::kWait;
}

CallParser::Progress HarmonyParser::step_start() {
  const TagMatch::Kind begins = begins_header(held_);
  if (begins == TagMatch::kPartial && !last_) return Progress::kWait;
  begins == TagMatch::kFull ? void(state_ = State::kHeader) : begin_body(Kind::kContent);
  return Progress::kMore;
}

/// What is before the last beginning of a message belongs to none.
CallParser::Progress HarmonyParser::step_header() {
  constexpr std::string_view kTags[] = {harmony_tags::kStart, harmony_tags::kMessage};
  const FoundTag tag = find_mark(held_, kTags);
  if (tag.size == 0) {
    if (held_.size() > 2 * kMaxHeader) held_.erase(0, held_.size() - kMaxHeader);
    return Progress::kWait;
  }
  if (std::string_view(held_).substr(tag.at).starts_with(harmony_tags::kMessage))
    begin_message(std::string_view(held_).substr(0, tag.at));
  held_.erase(0, tag.at + tag.size);
  return Progress::kMore;
}

void HarmonyParser::begin_message(std::string_view header) {
  header.remove_prefix(header.size() - std::min(header.size(), kMaxHeader));
  std::string_view recipient = recipient_of(header);
  const std::string_view channel = channel_of(header);
  const bool function = recipient.starts_with(harmony_tags::kFunctions);
  if (function) recipient.remove_prefix(harmony_tags::kFunctions.size());
  name_ = std::string(recipient.substr(0, kMaxCallName));
  const bool called = !schemas_.empty() && !name_.empty() && (function || schemas_.has_tool(name_));
  const bool elsewhere = !recipient.empty() && recipient != "user" && recipient != "assistant";
  begin_body(called ? Kind::kCall : elsewhere || channel == "analysis" ? Kind::kReasoning : Kind::kContent);
}

void HarmonyParser::begin_body(Kind kind) {
  state_ = State::kBody, kind_ = kind;
  divides_ = last_shown_ == kind && kind != Kind::kCall;
  value_.clear(), scan_ = {};
}

CallParser::Progress HarmonyParser::step_body(std::vector<AnswerEvent>& out) {
  constexpr std::string_view kTags[] = {harmony_tags::kEnd, harmony_tags::kCall, harmony_tags::kReturn,
                                        harmony_tags::kStart};
  const FoundTag tag = find_mark(held_, kTags);
  add(std::string_view(held_).substr(0, tag.at), out);
  held_.erase(0, tag.at);
  if (tag.size == 0) return Progress::kWait;
  if (kind_ == Kind::kCall && scan_.in_string()) {
    size_t size = 0;
    const Ending ends = ending_in_string(held_, kTags, size);
    if (ends == Ending::kWait) return Progress::kWait;
    if (ends == Ending::kNo) {
      add(std::string_view(held_).substr(0, size), out);
      held_.erase(0, size);
      return Progress::kMore;
    }
  }
  held_.erase(0, tag.size);
  if (kind_ == Kind::kCall) end_call(out);
  state_ = State::kHeader;
  return Progress::kMore;
}

void HarmonyParser::add(std::string_view text, std::vector<AnswerEvent>& out) {
  if (text.empty()) return;
  if (kind_ == Kind::kCall) {
    value_ += text;
    scan_.push(text);
    return;
  }
  const auto kind = kind_ == Kind::kReasoning ? AnswerEvent::Kind::kReasoning : AnswerEvent::Kind::kText;
  if (divides_) emit(kind, "\n\n", out);
  divides_ = false, last_shown_ = kind_;
  emit(kind, text, out);
}

void HarmonyParser::end_call(std::vector<AnswerEvent>& out) {
  const std::string_view written = trimmed_header(value_);
  const std::string_view arguments = written.empty() ? "{}" : written;
  if (!arguments.starts_with('{') || !is_json(arguments, kMaxArgumentsDepth)) {
    const std::string text = value_;
    begin_body(Kind::kContent);
    add(text, out);
    return;
  }
  ++calls_;
  last_shown_.reset();
  emit(AnswerEvent::Kind::kToolBegin, name_, out);
  emit(AnswerEvent::Kind::kToolArguments, arguments, out);
  emit(AnswerEvent::Kind::kToolEnd, "", out);
}

/// A header without a message is dropped.
void HarmonyParser::finish(bool cut, std::vector<AnswerEvent>& out) {
  last_ = !cut || state_ != State::kBody || kind_ != Kind::kCall;
  while (!held_.empty() && step(out) == Progress::kMore) {
  }
  if (state_ == State::kBody) {
    add(held_, out);
    if (kind_ == Kind::kCall && cut) {
      ++calls_;
      emit(AnswerEvent::Kind::kToolBegin, name_, out);
      emit(AnswerEvent::Kind::kToolArguments, value_, out);
    } else if (kind_ == Kind::kCall) {
      end_call(out);
    }
  }
  held_.clear();
  state_ = State::kHeader;
}

}  // namespace ft
