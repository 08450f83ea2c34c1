#include "text/chat_format/qwen3_5_parser.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/chat_format/qwen3_5_tags.h"
#include "text/hermes_call.h"
#include "text/json_text.h"
#include "text/tags.h"

namespace ft {

namespace {

constexpr size_t kMaxNameBytes = kMaxCallName;
constexpr int kMaxHermesTries = 16;  // "</tool_call>" after text that is not JSON

size_t next_space(std::string_view text) { return std::min(text.find_first_not_of(kTagSpace), text.size()); }

/// The size of a name that ends at `end`, cut before the character that crosses the limit.
size_t name_size(std::string_view text, size_t end) {
  return end != std::string_view::npos ? end : utf8_complete_prefix(text.substr(0, kMaxNameBytes));
}

/// Matches the end of a value: a newline, </parameter>, white space, and one of three tags.
struct ValueEnd {
  TagMatch::Kind kind = TagMatch::kNone;
  size_t size = 0;  // size of the newline and </parameter>; the rest belongs to the function
};

ValueEnd match_value_end(std::string_view text, bool last) {
  const size_t newline = text.starts_with('\n') ? 1 : 0;
  const std::string_view tag = text.substr(newline);
  const TagMatch close = match_tag(tag, qwen3_5_tags::kParameterClose, {});
  if (close.kind != TagMatch::kFull) {
    return {last ? TagMatch::kNone : close.kind, 0};
  }
  const size_t size = newline + close.size;
  bool partial = false;
  for (const std::string_view next :
       {qwen3_5_tags::kParameterOpen, qwen3_5_tags::kFunctionClose, qwen3_5_tags::kCallClose}) {
    const TagMatch match = match_tag(tag, qwen3_5_tags::kParameterClose, next);
    if (match.kind == TagMatch::kFull) {
      return {TagMatch::kFull, size};
    }
    partial = partial || match.kind == TagMatch::kPartial;
  }
  if (last && next_space(text.substr(size)) == text.size() - size) {
    return {TagMatch::kFull, size};
  }
  return {partial && !last ? TagMatch::kPartial : TagMatch::kNone, 0};
}

}  // namespace

void Qwen35Parser::push(std::string_view text, std::vector<AnswerEvent>& out) {
  held_ += text;
  while (step(out) == Progress::kMore) {
  }
}

void Qwen35Parser::finish(bool cut, std::vector<AnswerEvent>& out) {
  last_ = !cut || (state_ == State::kText && calls_ == 0);
  while (step(out) == Progress::kMore) {
  }
  if (cut) {
    finish_cut(out);
  } else {
    if (state_ == State::kValue) end_value(out);
    if (state_ == State::kBody || state_ == State::kKey || state_ == State::kValue) end_call(out);
  }
  if (calls_ == 0) {
    emit(AnswerEvent::Kind::kText, space_, out);
  }
  space_.clear();
  held_.clear();
  state_ = State::kText;
}

/// The part of a value that was written, or of a call in JSON. Undecided text is markup, or would be: after
/// </parameter> the value may go on.
void Qwen35Parser::finish_cut(std::vector<AnswerEvent>& out) {
  if (state_ == State::kHermes) {
    if (hermes_call(held_, out)) return;
    const std::optional<HermesCall> begun = parse_cut_hermes_call(held_);
    if (!begun) return;
    begin_call(begun->name, out);
    emit(AnswerEvent::Kind::kToolArguments, begun->arguments, out);
  }
  cut_call(state_ == State::kValue, out);
}

Qwen35Parser::Progress Qwen35Parser::step(std::vector<AnswerEvent>& out) {
  switch (state_) {
    case State::kText:
      return step_text(out);
    case State::kCallStart:
      return step_call_start(out);
    case State::kName:
      return step_name(out);
    case State::kBody:
      return step_body(out);
    case State::kKey:
      return step_key(out);
    case State::kValue:
      return step_value(out);
    case State::kAfter:
      return step_after();
    case State::kHermes:
      return step_hermes(out);
  }
  return Progress::kWait;
}

Qwen35Parser::Progress Qwen35Parser::become(State state, size_t eaten) {
  held_.erase(0, eaten);
  state_ = state;
  return Progress::kMore;
}

Qwen35Parser::Progress Qwen35Parser::step_text(std::vector<AnswerEvent>& out) {
  size_t from = 0;
  while (from < held_.size()) {
    const size_t tag = std::min(held_.find('<', from), held_.size());
    content(std::string_view(held_).substr(from, tag - from), out);
    from = tag;
    const std::string_view rest = std::string_view(held_).substr(from);
    if (rest.empty()) {
      break;
    }
    const TagMatch open = match_tag(rest, qwen3_5_tags::kCallOpen, {});
    if (open.kind == TagMatch::kFull) {
      return become(State::kCallStart, from + open.size);
    }
    bool undecided = open.kind == TagMatch::kPartial;
    if (known_bare_call(rest, undecided)) {
      space_.clear();
      return become(State::kName, from + qwen3_5_tags::kFunctionOpen.size());
    }
    if (undecided && !last_) {
      break;
    }
    content(rest.substr(0, 1), out);
    ++from;
  }
  held_.erase(0, from);
  return Progress::kWait;
}

/// <function=NAME> without <tool_call>, for a tool of the request. `undecided` is set if more text may
/// decide.
bool Qwen35Parser::known_bare_call(std::string_view text, bool& undecided) const {
  const TagMatch open = match_tag(text, qwen3_5_tags::kFunctionOpen, {});
  undecided = undecided || open.kind == TagMatch::kPartial;
  if (open.kind != TagMatch::kFull) {
    return false;
  }
  const std::string_view name = text.substr(open.size);
  const size_t end = name.find_first_of("<>\n");
  if (end == std::string_view::npos) {
    undecided = undecided || name.size() <= kMaxNameBytes;
    return false;
  }
  return name[end] == '>' && schemas_.has_tool(name.substr(0, end));
}

/// Handles the text after <tool_call>, where held_ begins. Text that is not a call is shown with the tag.
Qwen35Parser::Progress Qwen35Parser::step_call_start(std::vector<AnswerEvent>& out) {
  const size_t space = next_space(held_);
  const std::string_view rest = std::string_view(held_).substr(space);
  const TagMatch function = match_tag(rest, qwen3_5_tags::kFunctionOpen, {});
  if (function.kind == TagMatch::kFull) {
    space_.clear();
    return become(State::kName, space + function.size);
  }
  if (rest.starts_with('{')) {
    hermes_seen_ = hermes_scanned_ = 0;
    hermes_tries_ = 0;
    scan_ = {};
    return become(State::kHermes, 0);
  }
  if (function.kind == TagMatch::kPartial && space <= kMaxTagGap && !last_) {
    return Progress::kWait;
  }
  content(qwen3_5_tags::kCallOpen, out);
  return become(State::kText, 0);
}

Qwen35Parser::Progress Qwen35Parser::step_name(std::vector<AnswerEvent>& out) {
  // "<" and a newline also end a name: models forget the ">" or write </function after the name.
  const size_t end = std::string_view(held_).substr(0, kMaxNameBytes).find_first_of("<>\n");
  if (end == std::string::npos && held_.size() <= kMaxNameBytes) {
    return Progress::kWait;  // at the end of the text an incomplete name drops the call
  }
  const size_t size = name_size(held_, end);
  std::string_view name = std::string_view(held_).substr(0, size);
  name.remove_prefix(next_space(name));
  begin_call(name.substr(0, name.find_last_not_of(kTagSpace) + 1), out);
  return become(State::kBody, size < held_.size() && held_[size] == '>' ? size + 1 : size);
}

Qwen35Parser::Progress Qwen35Parser::step_body(std::vector<AnswerEvent>& out) {
  held_.erase(0, std::min(held_.find('<'), held_.size()));  // white space, or text outside every grammar
  if (held_.empty()) {
    return Progress::kWait;
  }
  const TagMatch parameter = match_tag(held_, qwen3_5_tags::kParameterOpen, {});
  if (parameter.kind == TagMatch::kFull) {
    return become(State::kKey, parameter.size);
  }
  const TagMatch close = match_tag(held_, qwen3_5_tags::kFunctionClose, {});
  if (close.kind == TagMatch::kFull) {
    end_call(out);
    return become(State::kAfter, close.size);
  }
  bool undecided = parameter.kind == TagMatch::kPartial || close.kind == TagMatch::kPartial;
  for (const std::string_view next : {qwen3_5_tags::kCallClose, qwen3_5_tags::kFunctionOpen,
                                      qwen3_5_tags::kCallOpen}) {  // </function> is missing
    const TagMatch match = match_tag(held_, next, {});
    if (match.kind == TagMatch::kFull) {
      end_call(out);
      return become(State::kAfter, 0);
    }
    undecided = undecided || match.kind == TagMatch::kPartial;
  }
  if (undecided && !last_) {
    return Progress::kWait;
  }
  held_.erase(0, 1);
  return Progress::kMore;
}

Qwen35Parser::Progress Qwen35Parser::step_key(std::vector<AnswerEvent>& out) {
  const size_t end = std::string_view(held_).substr(0, kMaxNameBytes).find_first_of(">\n");
  if (end == std::string::npos && held_.size() <= kMaxNameBytes) {
    return Progress::kWait;  // at the end of the text the parameter is dropped
  }
  const size_t size = name_size(held_, end);
  std::string_view key = std::string_view(held_).substr(0, size);
  key.remove_prefix(next_space(key));
  key_ = key.substr(0, key.find_last_not_of(kTagSpace) + 1);
  value_begun_ = false;
  begin_value(out);
  return become(State::kValue, size < held_.size() && held_[size] == '>' ? size + 1 : size);
}

Qwen35Parser::Progress Qwen35Parser::step_value(std::vector<AnswerEvent>& out) {
  size_t from = 0;
  bool ended = false;
  while (from < held_.size() && !ended) {
    const std::string_view rest = std::string_view(held_).substr(from);
    const ValueEnd end = match_value_end(rest, last_);
    if (end.kind == TagMatch::kPartial) {
      break;
    }
    if (end.kind == TagMatch::kFull && scan_.in_string()) {
      constexpr std::string_view kClose[] = {qwen3_5_tags::kParameterClose};
      size_t size = 0;
      const Ending ends = ending_in_string(rest, kClose, size);
      if (ends == Ending::kWait) break;
      if (ends == Ending::kNo) {
        add_value(rest.substr(0, size), out);
        from += size;
        continue;
      }
    }
    if (end.kind == TagMatch::kFull) {
      from += end.size;
      ended = true;
      break;
    }
    if (!value_begun_ && rest[0] == '\n') {  // one newline after the tag is not part of the value
      value_begun_ = true;
      ++from;
      continue;
    }
    value_begun_ = true;
    if (last_ && rest == "\n") {  // neither is one at the end of a truncated text
      ++from;
      continue;
    }
    const size_t next = std::min(rest.find_first_of("\n<", 1), rest.size());
    add_value(rest.substr(0, next), out);
    from += next;
  }
  held_.erase(0, from);
  if (ended) {
    end_value(out);
    return become(State::kBody, 0);
  }
  return Progress::kWait;
}

/// Handles the text after a function: the block's end, another function, or content.
Qwen35Parser::Progress Qwen35Parser::step_after() {
  const size_t space = next_space(held_);
  const std::string_view rest = std::string_view(held_).substr(space);
  const TagMatch close = match_tag(rest, qwen3_5_tags::kCallClose, {});
  const TagMatch function = match_tag(rest, qwen3_5_tags::kFunctionOpen, {});
  if (close.kind == TagMatch::kFull) {
    return become(State::kText, space + close.size);
  }
  if (function.kind == TagMatch::kFull) {
    return become(State::kName, space + function.size);
  }
  if ((close.kind == TagMatch::kPartial || function.kind == TagMatch::kPartial) && !last_) {
    held_.erase(0, space);
    return Progress::kWait;
  }
  return become(State::kText, space);
}

Qwen35Parser::Progress Qwen35Parser::step_hermes(std::vector<AnswerEvent>& out) {
  while (hermes_tries_ < kMaxHermesTries) {
    const size_t close = held_.find(qwen3_5_tags::kCallClose, hermes_seen_);
    if (close == std::string::npos) {
      hermes_seen_ = held_.size() - std::min(held_.size(), qwen3_5_tags::kCallClose.size() - 1);
      break;
    }
    scan_.push(std::string_view(held_).substr(hermes_scanned_, close - hermes_scanned_));
    hermes_scanned_ = close;
    if (!scan_.in_string()) {
      ++hermes_tries_;
      if (hermes_call(std::string_view(held_).substr(0, close), out)) {
        return become(State::kText, close + qwen3_5_tags::kCallClose.size());
      }
    }
    hermes_seen_ = close + qwen3_5_tags::kCallClose.size();
  }
  if (!last_ && hermes_tries_ < kMaxHermesTries) {
    return Progress::kWait;
  }
  if (last_ && hermes_call(held_, out)) {
    return become(State::kText, held_.size());
  }
  content(qwen3_5_tags::kCallOpen, out);
  return become(State::kText, 0);
}

bool Qwen35Parser::hermes_call(std::string_view json, std::vector<AnswerEvent>& out) {
  const std::optional<HermesCall> call = parse_hermes_call(json);
  if (!call) {
    return false;
  }
  space_.clear();
  begin_call(call->name, out);
  emit(AnswerEvent::Kind::kToolArguments, call->arguments, out);
  emit(AnswerEvent::Kind::kToolEnd, "", out);
  return true;
}

}  // namespace ft
