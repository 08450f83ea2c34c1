#include "text/chat_format/gemma4_parser.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/chat_format/gemma4_tags.h"
#include "text/chat_format/gemma4_value.h"
#include "text/json_text.h"
#include "text/tags.h"

namespace ft {

namespace {

constexpr size_t kMaxName = kMaxCallName;

size_t space_at(std::string_view text) { return std::min(text.find_first_not_of(kTagSpace), text.size()); }

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '-';
}

bool ends_value(char c) { return c == ',' || c == '}' || c == ']'; }

/// A key without its quotes and the white space around it.
std::string bare_key(std::string_view text) {
  text.remove_prefix(space_at(text));
  text = text.substr(0, text.find_last_not_of(kTagSpace) + 1);
  for (const std::string_view quote : {gemma4_tags::kQuote, std::string_view("\"")}) {
    if (text.starts_with(quote)) text.remove_prefix(quote.size());
    if (text.ends_with(quote)) text.remove_suffix(quote.size());
  }
  size_t size = std::min(text.size(), kMaxName);
  while (size < text.size() && size > 0 && !utf8_begins(text[size])) --size;
  return std::string(text.substr(0, size));
}

}  // namespace

void Gemma4Parser::push(std::string_view text, std::vector<AnswerEvent>& out) {
  held_ += text;
  while (!held_.empty() && step(out) == Progress::kMore) {
  }
}

void Gemma4Parser::finish(bool cut, std::vector<AnswerEvent>& out) {
  last_ = !cut || (state_ == State::kText && calls_ == 0);
  while (!held_.empty() && step(out) == Progress::kMore) {
  }
  if (!cut) {
    finish_ended(out);
  } else {
    cut_call(state_ == State::kValue, out);
  }
  if (state_ == State::kText && calls_ == 0) emit(AnswerEvent::Kind::kText, std::exchange(space_, {}), out);
  held_.clear();
  state_ = State::kText;
}

/// Closes open values and calls.
void Gemma4Parser::finish_ended(std::vector<AnswerEvent>& out) {
  if (state_ == State::kString) emit(AnswerEvent::Kind::kToolArguments, repeated_ ? "" : "\"", out);
  if (state_ == State::kValueStart || state_ == State::kValue) end_value(out);
  if (state_ != State::kText && state_ != State::kName && state_ != State::kAfter) end_call(out);
  if (state_ == State::kName) content(gemma4_tags::kCallOpen, out);
}

Gemma4Parser::Progress Gemma4Parser::step(std::vector<AnswerEvent>& out) {
  switch (state_) {
    case State::kText:
      return step_text(out);
    case State::kName:
      return step_name(out);
    case State::kKey:
      return step_key(out);
    case State::kValueStart:
      return step_value_start(out);
    case State::kString:
      return step_string(out);
    case State::kValue:
      return step_value(out);
    case State::kAfter:
      return step_after();
  }
  return Progress::kWait;
}

Gemma4Parser::Progress Gemma4Parser::become(State state, size_t eaten) {
  held_.erase(0, eaten);
  state_ = state;
  return Progress::kMore;
}

Gemma4Parser::Progress Gemma4Parser::step_text(std::vector<AnswerEvent>& out) {
  const size_t tag = std::min(held_.find('<'), held_.size());
  if (tag > 0) {
    content(std::string_view(held_).substr(0, tag), out);
    return become(State::kText, tag);
  }
  const TagMatch open = match_tag(held_, gemma4_tags::kCallOpen, {});
  const TagMatch close = swallow_ ? match_tag(held_, gemma4_tags::kCallClose, {}) : TagMatch{};
  if (open.kind == TagMatch::kFull) return become(State::kName, open.size);
  if (close.kind == TagMatch::kFull) return become(State::kText, close.size);
  if ((open.kind == TagMatch::kPartial || close.kind == TagMatch::kPartial) && !last_) return Progress::kWait;
  content("<", out);
  return become(State::kText, 1);
}

bool Gemma4Parser::is_name(std::string_view text) const {
  return !text.empty() && text.size() <= kMaxName &&
         (schemas_.has_tool(text) || std::ranges::all_of(text, in_name));
}

/// Reads "call:NAME{", or emits other text as content.
Gemma4Parser::Progress Gemma4Parser::step_name(std::vector<AnswerEvent>& out) {
  size_t from = space_at(held_);
  const TagMatch word = match_tag(std::string_view(held_).substr(from), gemma4_tags::kCallWord, {});
  if (word.kind == TagMatch::kPartial && !last_) return Progress::kWait;
  if (word.kind == TagMatch::kFull) from += word.size;
  while (from < held_.size() && held_[from] == ':') ++from;
  const size_t end = std::min(held_.find_first_of("{<\n", from), held_.size());
  const std::string_view rest = std::string_view(held_).substr(end);
  const bool readable = end - from <= kMaxName + kMaxTagGap;
  if (rest.empty() && readable && !last_) return Progress::kWait;
  std::string_view name = std::string_view(held_).substr(from, end - from);
  name = name.substr(0, name.find_last_not_of(kTagSpace) + 1);
  const size_t gap = space_at(rest);
  if (gap == rest.size() && gap < kMaxTagGap && is_name(name) && !last_) return Progress::kWait;
  const TagMatch close = match_tag(rest.substr(gap), gemma4_tags::kCallClose, {});
  if (close.kind == TagMatch::kPartial && gap < rest.size() && !last_) return Progress::kWait;
  const bool opens = rest.substr(gap).starts_with('{');
  if (!is_name(name) || !(opens || close.kind == TagMatch::kFull)) {
    content(gemma4_tags::kCallOpen, out);
    return become(State::kText, 0);
  }
  space_.clear();
  begin_call(name, out);
  if (opens) return become(State::kKey, end + gap + 1);
  end_call(out);
  return become(State::kText, end + gap + close.size);
}

Gemma4Parser::Progress Gemma4Parser::step_key(std::vector<AnswerEvent>& out) {
  const size_t space = held_.find_first_not_of(" \t\r\n\f\v,");
  held_.erase(0, std::min(space, held_.size()));
  if (held_.empty()) return Progress::kWait;
  const TagMatch close = match_tag(held_, gemma4_tags::kCallClose, {});
  if (held_[0] == '}' || close.kind == TagMatch::kFull) {
    end_call(out);
    return become(State::kAfter, held_[0] == '}' ? 1 : 0);
  }
  const bool quoted = held_.starts_with(gemma4_tags::kQuote);
  size_t from = quoted ? held_.find(gemma4_tags::kQuote, gemma4_tags::kQuote.size()) : 0;
  if (!quoted && held_[0] == '"') from = held_.find('"', 1);
  if (quoted && from == std::string::npos && !last_) return Progress::kWait;
  const size_t end = from == std::string::npos ? from : held_.find_first_of(":},", from);
  const size_t call_end = held_.find(gemma4_tags::kCallClose, quoted && from != std::string::npos ? from : 0);
  if (call_end < end) return become(State::kKey, call_end);
  if (end == std::string::npos) return Progress::kWait;
  if (held_[end] != ':') return become(State::kKey, end);  // a key without a value
  key_ = bare_key(std::string_view(held_).substr(0, end));
  const bool first = keys_.empty();
  repeated_ = !keys_.insert(key_).second;
  if (!repeated_ && !waits_) {
    emit(AnswerEvent::Kind::kToolArguments, (first ? "{" : ",") + json_quoted(key_) + ":", out);
  }
  value_.clear(), depth_ = 0, string_ = kNoString, before_ = 0;
  return become(State::kValueStart, end + 1);
}

Gemma4Parser::Progress Gemma4Parser::step_value_start(std::vector<AnswerEvent>& out) {
  held_.erase(0, space_at(held_));
  if (held_.empty()) return Progress::kWait;
  const TagMatch quote = match_tag(held_, gemma4_tags::kQuote, {});
  if (quote.kind == TagMatch::kPartial && !last_) return Progress::kWait;
  const bool streams = quote.kind == TagMatch::kFull && !waits_ &&
                       (repeated_ || schemas_.type_of(name_, key_).is_plain_string());
  if (!streams) return become(State::kValue, 0);
  emit(AnswerEvent::Kind::kToolArguments, repeated_ ? "" : "\"", out);
  return become(State::kString, quote.size);
}

Gemma4Parser::Progress Gemma4Parser::step_string(std::vector<AnswerEvent>& out) {
  const size_t tag = std::min(held_.find('<'), held_.size());
  const TagMatch quote = match_tag(std::string_view(held_).substr(tag), gemma4_tags::kQuote, {});
  const bool ends = tag < held_.size() && quote.kind == TagMatch::kFull;
  const bool waits = tag < held_.size() && quote.kind == TagMatch::kPartial && !last_;
  const size_t shown = ends || waits ? tag : std::min(tag + 1, held_.size());
  std::string escaped;
  if (!repeated_) append_json_escaped(std::string_view(held_).substr(0, shown), escaped);
  emit(AnswerEvent::Kind::kToolArguments, escaped, out);
  if (ends) {
    emit(AnswerEvent::Kind::kToolArguments, repeated_ ? "" : "\"", out);
    return become(State::kKey, tag + quote.size);
  }
  held_.erase(0, shown);
  return waits ? Progress::kWait : Progress::kMore;
}

/// Takes a value as written up to its end: a comma or bracket outside strings and outside its brackets.
Gemma4Parser::Progress Gemma4Parser::step_value(std::vector<AnswerEvent>& out) {
  size_t at = 0;
  bool ended = false, waits = false;
  while (at < held_.size() && !ended && !waits) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const TagMatch quote = string_ == kJsonString ? TagMatch{} : match_tag(rest, gemma4_tags::kQuote, {});
    const TagMatch close = string_ == kNoString ? match_tag(rest, gemma4_tags::kCallClose, {}) : TagMatch{};
    waits = (quote.kind == TagMatch::kPartial || close.kind == TagMatch::kPartial) && !last_;
    ended = close.kind == TagMatch::kFull || (string_ == kNoString && depth_ == 0 && ends_value(rest[0]));
    if (waits || ended) break;
    if (quote.kind == TagMatch::kFull) string_ = string_ == kNoString ? kTagged : kNoString;
    const size_t size = quote.kind == TagMatch::kFull ? quote.size : 1;
    if (size == 1) take_character(rest[0]);
    if (kTagSpace.find(rest[size - 1]) == std::string_view::npos) before_ = rest[size - 1];
    at += size;
  }
  value_.append(held_, 0, at);
  held_.erase(0, at);
  if (!ended) return Progress::kWait;
  end_value(out);
  return become(State::kKey, held_[0] == ']' ? 1 : 0);
}

/// Follows brackets and ordinary quotes.
void Gemma4Parser::take_character(char c) {
  if (string_ == kNoString) {
    const bool opens =
        c == '"' && (before_ == 0 || std::string_view(",:[{").find(before_) != std::string::npos);
    if (opens) string_ = kJsonString, escaped_ = false;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
  } else if (string_ == kJsonString) {
    if (c == '"' && !escaped_) string_ = kNoString;
    escaped_ = c == '\\' && !escaped_;
  }
}

/// Handles the text after a call: its closing tag, another call, or content.
Gemma4Parser::Progress Gemma4Parser::step_after() {
  held_.erase(0, space_at(held_));
  return become(State::kText, 0);
}

}  // namespace ft
