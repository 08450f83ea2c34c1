#include "text/chat_format/listed_calls_parser.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "base/json.h"
#include "text/chat_format/hermes.h"
#include "text/hermes_call.h"
#include "text/json_text.h"
#include "text/tags.h"

namespace ft {
namespace {

constexpr int kMaxArgumentDepth = 100;

size_t space_from(std::string_view text) { return std::min(text.find_first_not_of(kTagSpace), text.size()); }

/// Whether a name without a mark may begin here, or has begun.
bool may_name(std::string_view text) {
  text.remove_prefix(space_from(text));
  const auto end = std::ranges::find_if_not(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  return end == text.end() || *end == '[';
}

bool holds_object(std::string_view text) {
  return is_json(text, kMaxArgumentDepth) && text[space_from(text)] == '{';
}

}  // namespace

void ListedCallsParser::push(std::string_view text, std::vector<AnswerEvent>& out) {
  held_ += text;
  while (step(out) == Progress::kMore) {
  }
}

void ListedCallsParser::finish(bool cut, std::vector<AnswerEvent>& out) {
  last_ = !cut || (state_ == State::kText && calls_ == 0);
  while (step(out) == Progress::kMore) {
  }
  if (cut) {  // undecided text is markup, or would be
    if (state_ == State::kObject) cut_object(out);
  } else if (state_ != State::kObject || !take_object(held_ + "}", out)) {  // models forget the last brace
    content(markup_, out);
    content(held_, out);
  }
  if (calls_ == 0) emit(AnswerEvent::Kind::kText, space_, out);
  space_.clear(), held_.clear(), markup_.clear();
  state_ = State::kText;
}

ListedCallsParser::Progress ListedCallsParser::step(std::vector<AnswerEvent>& out) {
  switch (state_) {
    case State::kText:
      return step_text(out);
    case State::kStart:
      return step_start(out);
    case State::kItems:
      return step_items(out);
    case State::kObject:
      return step_object(out);
    case State::kAfter:
      return step_after();
  }
  return Progress::kWait;
}

ListedCallsParser::Progress ListedCallsParser::become(State state, size_t eaten) {
  held_.erase(0, eaten);
  state_ = state;
  return Progress::kMore;
}

/// The same for markup, which is kept until a call follows.
ListedCallsParser::Progress ListedCallsParser::take_markup(State state, size_t size) {
  markup_.append(held_, 0, size);
  return become(state, size);
}

/// There is no call before `size`: the markup and the text up to there are content.
ListedCallsParser::Progress ListedCallsParser::no_call(size_t size, std::vector<AnswerEvent>& out) {
  content(std::exchange(markup_, {}), out);
  content(std::string_view(held_).substr(0, size), out);
  return become(State::kText, size);
}

ListedCallsParser::Progress ListedCallsParser::step_text(std::vector<AnswerEvent>& out) {
  size_t from = 0;
  while (from < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(from);
    bool undecided = false;
    for (const std::string_view mark : marks_.begins) {
      const TagMatch match = match_tag(rest, mark, {});
      if (match.kind == TagMatch::kFull) {
        held_.erase(0, from);
        return take_markup(State::kStart, match.size);
      }
      undecided = undecided || match.kind == TagMatch::kPartial;
    }
    if (undecided && !last_) break;
    const size_t next = std::min(rest.find_first_of("[<", 1), rest.size());
    content(rest.substr(0, next), out);
    from += next;
  }
  held_.erase(0, from);
  return Progress::kWait;
}

ListedCallsParser::Progress ListedCallsParser::begin_object(std::string_view name, size_t at) {
  named_ = name;
  seen_ = 0, scan_ = {};
  return take_markup(State::kObject, at);
}

/// Whether `text` begins with a name and the mark before its arguments; `size`: of both and white space.
ListedCallsParser::Found ListedCallsParser::named_call(std::string_view text, std::string_view& name,
                                                       size_t& size) const {
  if (marks_.arguments.empty()) return Found::kNo;
  const size_t begin = space_from(text);
  const size_t end = text.find_first_of("[]{}\n", begin);
  const size_t bytes = std::min(end, text.size()) - begin;
  if (begin > kMaxTagGap || bytes > kMaxCallName) return Found::kNo;
  if (end == std::string_view::npos) return Found::kUndecided;
  if (bytes == 0) return Found::kNo;
  name = text.substr(begin, bytes);
  name = name.substr(0, name.find_last_not_of(kTagSpace) + 1);
  size_t at = end;
  const TagMatch id = marks_.id.empty() ? TagMatch{} : match_tag(text.substr(at), marks_.id, {});
  if (id.kind == TagMatch::kFull) {
    const size_t after = text.find('[', at + id.size);
    if (std::min(after, text.size()) - at > kMaxCallName) return Found::kNo;
    if (after == std::string_view::npos) return Found::kUndecided;
    at = after;
  }
  const TagMatch mark = match_tag(text.substr(at), marks_.arguments, {});
  if (mark.kind == TagMatch::kPartial || id.kind == TagMatch::kPartial) return Found::kUndecided;
  if (mark.kind != TagMatch::kFull) return Found::kNo;
  at += mark.size;
  const size_t space = space_from(text.substr(at));
  size = at + space;
  if (size == text.size()) return space <= kMaxTagGap ? Found::kUndecided : Found::kNo;
  return text[size] == '{' ? Found::kYes : Found::kNo;
}

ListedCallsParser::Progress ListedCallsParser::step_start(std::vector<AnswerEvent>& out) {
  const size_t space = space_from(held_);
  if (space == held_.size() && space <= kMaxTagGap && !last_) return Progress::kWait;
  if (space < held_.size() && space <= kMaxTagGap) {
    in_list_ = held_[space] == '[';
    if (in_list_) return take_markup(State::kItems, space + 1);
    if (held_[space] == '{') return begin_object({}, space);
    std::string_view name;
    size_t size = 0;
    const Found found = named_call(held_, name, size);
    if (found == Found::kUndecided && !last_) return Progress::kWait;
    if (found == Found::kYes) return begin_object(std::string(name), size);
  }
  return no_call(0, out);
}

ListedCallsParser::Progress ListedCallsParser::step_items(std::vector<AnswerEvent>& out) {
  const size_t next = std::min(held_.find_first_not_of(", \t\r\n\f\v"), held_.size());
  const bool given = markup_.empty();  // a call of this list
  if (next == held_.size()) {
    if (given) held_.clear();
    if (!given) take_markup(State::kItems, next);
    return Progress::kWait;
  }
  if (held_[next] == '{') return begin_object({}, next);
  return given ? become(State::kText, next + (held_[next] == ']' ? 1 : 0)) : no_call(0, out);
}

ListedCallsParser::Progress ListedCallsParser::step_object(std::vector<AnswerEvent>& out) {
  seen_ += scan_.push_to_end(std::string_view(held_).substr(seen_));
  if (!scan_.ended()) return Progress::kWait;
  const size_t size = seen_;
  const bool named = !named_.empty();
  if (!take_object(std::string_view(held_).substr(0, size), out)) return no_call(size, out);
  return become(named ? State::kAfter : in_list_ ? State::kItems : State::kText, size);
}

/// Another named call may follow without a mark.
ListedCallsParser::Progress ListedCallsParser::step_after() {
  std::string_view name;
  size_t size = 0;
  const size_t space = space_from(held_);
  const bool at_mark = space < held_.size() && held_[space] == '[';
  const Found found = at_mark ? Found::kNo : named_call(held_, name, size);
  if (found == Found::kUndecided && !last_ && may_name(held_)) return Progress::kWait;
  if (found == Found::kYes && schemas_.has_tool(name)) return begin_object(std::string(name), size);
  return become(State::kText, 0);
}

/// False if the object is not a call.
bool ListedCallsParser::take_object(std::string_view json, std::vector<AnswerEvent>& out) {
  std::optional<HermesCall> call;
  if (named_.empty()) {
    call = parse_hermes_call(json);
  } else if (holds_object(json)) {
    call = HermesCall{named_, std::string(json)};
  }
  if (!call) return false;
  space_.clear(), markup_.clear(), named_.clear();
  begin_call(call->name, out);
  emit(AnswerEvent::Kind::kToolArguments, call->arguments, out);
  emit(AnswerEvent::Kind::kToolEnd, "", out);
  return true;
}

void ListedCallsParser::cut_object(std::vector<AnswerEvent>& out) {
  std::optional<HermesCall> begun;
  if (named_.empty()) begun = parse_cut_hermes_call(held_);
  if (!named_.empty()) begun = HermesCall{named_, held_};
  named_.clear();
  if (!begun) return;
  space_.clear();
  begin_call(begun->name, out);
  emit(AnswerEvent::Kind::kToolArguments, begun->arguments, out);
}

Result<CallBody> listed_call_body(const ToolFunction& function, const std::string& prefix,
                                  std::string& lark) {
  CallBody body = json_arguments(function, prefix, lark);
  const std::string head = fmt::format("{{\"name\": {}, \"arguments\": ", json_quoted(function.name));
  body.expression = fmt::format("{} {} \"}}\"", json_quoted(head), body.expression);
  return body;
}

Result<std::string> listed_text_body(const TextFunction& function, const std::string& prefix,
                                     std::string& lark) {
  FT_TRY(add_json_text_rule(function.name, function.format, prefix, lark));
  const std::string head = fmt::format("{{\"name\": {}, \"arguments\": ", json_quoted(function.name));
  return fmt::format("{} {}_json \"}}\"", json_quoted(head), prefix);
}

}  // namespace ft
