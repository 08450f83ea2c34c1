#include "text/chat_format/glm4_moe_parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/utf8.h"
#include "text/chat_format/glm4_moe_tags.h"
#include "text/tags.h"

namespace ft {
namespace {

struct Found {
  std::string_view tag;  // empty: none
  bool undecided = false;
};

/// Which of the tags `text` begins with.
Found find_tag(std::string_view text, std::initializer_list<std::string_view> tags) {
  Found found;
  for (const std::string_view tag : tags) {
    const TagMatch match = match_tag(text, tag, {});
    if (match.kind == TagMatch::kFull) return {tag};
    found.undecided = found.undecided || match.kind == TagMatch::kPartial;
  }
  return found;
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kTagSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kTagSpace) + 1);
}

}  // namespace

void Glm4MoeParser::push(std::string_view text, std::vector<AnswerEvent>& out) {
  held_ += text;
  while (step(out) == Progress::kMore) {
  }
}

void Glm4MoeParser::finish(bool cut, std::vector<AnswerEvent>& out) {
  last_ = !cut || (state_ == State::kText && calls_ == 0);
  while (step(out) == Progress::kMore) {
  }
  if (cut) cut_call(state_ == State::kValue, out);
  if (!cut && state_ == State::kValue) end_value(out);
  if (!cut && state_ != State::kText) end_call(out);
  if (calls_ == 0) emit(AnswerEvent::Kind::kText, space_, out);
  space_.clear();
  held_.clear();
  state_ = State::kText;
}

Glm4MoeParser::Progress Glm4MoeParser::step(std::vector<AnswerEvent>& out) {
  switch (state_) {
    case State::kText:
      return step_text(out);
    case State::kName:
      return step_name(out);
    case State::kBody:
      return step_body(out);
    case State::kKey:
      return step_key();
    case State::kAfterKey:
      return step_after_key(out);
    case State::kValue:
      return step_value(out);
  }
  return Progress::kWait;
}

Glm4MoeParser::Progress Glm4MoeParser::become(State state, size_t eaten) {
  held_.erase(0, eaten);
  state_ = state;
  return Progress::kMore;
}

Glm4MoeParser::Progress Glm4MoeParser::step_text(std::vector<AnswerEvent>& out) {
  size_t from = 0;
  while (from < held_.size()) {
    const size_t tag = std::min(held_.find('<', from), held_.size());
    content(std::string_view(held_).substr(from, tag - from), out);
    from = tag;
    const std::string_view rest = std::string_view(held_).substr(from);
    if (rest.empty()) break;
    const Found open = find_tag(rest, {glm4_moe_tags::kCallOpen});
    if (!open.tag.empty()) return become(State::kName, from + glm4_moe_tags::kCallOpen.size());
    if (open.undecided && !last_) break;
    content(rest.substr(0, 1), out);
    ++from;
  }
  held_.erase(0, from);
  return Progress::kWait;
}

/// A name ends at a tag or with its line. If the tool is unknown, a tag must follow.
Glm4MoeParser::Progress Glm4MoeParser::step_name(std::vector<AnswerEvent>& out) {
  const std::string_view all = held_;
  const size_t begin = std::min(all.find_first_not_of(kTagSpace), all.size());
  const size_t end = all.find_first_of("<\n", begin);
  const bool too_long = std::min(end, all.size()) - begin > kMaxCallName || begin > kMaxTagGap;
  if (end == std::string_view::npos && !too_long && !last_) return Progress::kWait;
  if (end != std::string_view::npos && !too_long && end > begin) {
    const std::string_view name = trimmed(all.substr(begin, end - begin));
    const size_t next = std::min(all.find_first_not_of(kTagSpace, end), all.size());
    const Found tag = find_tag(all.substr(next), {glm4_moe_tags::kKeyOpen, glm4_moe_tags::kCallClose});
    const bool known = schemas_.has_tool(name);
    const bool waits = next == all.size() ? next - end <= kMaxTagGap : tag.undecided;
    if (!known && tag.tag.empty() && waits && !last_) return Progress::kWait;
    if (known || !tag.tag.empty()) {
      space_.clear();
      begin_call(name, out);
      return become(State::kBody, end);
    }
  }
  content(glm4_moe_tags::kCallOpen, out);
  return become(State::kText, 0);
}

Glm4MoeParser::Progress Glm4MoeParser::step_body(std::vector<AnswerEvent>& out) {
  held_.erase(0, std::min(held_.find('<'), held_.size()));  // white space, or text outside every grammar
  if (held_.empty()) return Progress::kWait;
  const Found found =
      find_tag(held_, {glm4_moe_tags::kKeyOpen, glm4_moe_tags::kCallClose, glm4_moe_tags::kCallOpen});
  if (found.tag == glm4_moe_tags::kKeyOpen) return become(State::kKey, glm4_moe_tags::kKeyOpen.size());
  if (!found.tag.empty()) {  // another call: the end of this one is missing
    end_call(out);
    return become(State::kText,
                  found.tag == glm4_moe_tags::kCallClose ? glm4_moe_tags::kCallClose.size() : 0);
  }
  if (found.undecided && !last_) return Progress::kWait;
  held_.erase(0, 1);
  return Progress::kMore;
}

Glm4MoeParser::Progress Glm4MoeParser::step_key() {
  const size_t end = std::string_view(held_).substr(0, kMaxCallName).find('<');
  if (end == std::string::npos && held_.size() <= kMaxCallName) return Progress::kWait;
  const size_t size =
      end != std::string::npos ? end : utf8_complete_prefix(std::string_view(held_).substr(0, kMaxCallName));
  key_ = trimmed(std::string_view(held_).substr(0, size));
  return become(State::kAfterKey, size);
}

/// A key without a value is left out.
Glm4MoeParser::Progress Glm4MoeParser::step_after_key(std::vector<AnswerEvent>& out) {
  held_.erase(0, std::min(held_.find('<'), held_.size()));
  if (held_.empty()) return Progress::kWait;
  const Found found = find_tag(held_, {glm4_moe_tags::kValueOpen, glm4_moe_tags::kKeyOpen,
                                       glm4_moe_tags::kCallClose, glm4_moe_tags::kCallOpen});
  if (found.tag == glm4_moe_tags::kValueOpen) {
    begin_value(out);
    return become(State::kValue, glm4_moe_tags::kValueOpen.size());
  }
  if (!found.tag.empty()) return become(State::kBody, 0);
  if (found.undecided && !last_) return Progress::kWait;
  held_.erase(0, 1);
  return Progress::kMore;
}

/// Does the </arg_value> at held_[at] end the value? Inside a string of JSON only if the call continues.
/// `size`: the bytes that belong to the value.
Glm4MoeParser::Ending Glm4MoeParser::ending(size_t at, size_t& size) {
  size = 1;
  if (!scan_.in_string()) return Ending::kYes;
  const std::string_view close = glm4_moe_tags::kValueClose;
  if (looks_ahead()) return ending_in_string(std::string_view(held_).substr(at), {&close, 1}, size);
  std::string_view rest = std::string_view(held_).substr(at + close.size());
  const size_t gap = std::min(rest.find_first_not_of(kTagSpace), rest.size());
  rest.remove_prefix(gap);
  const Found next =
      find_tag(rest, {glm4_moe_tags::kKeyOpen, glm4_moe_tags::kCallClose, glm4_moe_tags::kCallOpen});
  if (rest.empty() && last_) return Ending::kYes;
  if (!next.tag.empty()) return ending_in_string(std::string_view(held_).substr(at), {&close, 1}, size);
  return (rest.empty() || next.undecided) && gap <= kMaxTagGap && !last_ ? Ending::kWait : Ending::kNo;
}

Glm4MoeParser::Progress Glm4MoeParser::step_value(std::vector<AnswerEvent>& out) {
  size_t from = 0;
  while (from < held_.size()) {
    const size_t tag = std::min(held_.find('<', from), held_.size());
    add_value(std::string_view(held_).substr(from, tag - from), out);
    from = tag;
    if (from == held_.size()) break;
    const Found close = find_tag(std::string_view(held_).substr(from), {glm4_moe_tags::kValueClose});
    size_t size = 1;
    const Ending ends = close.tag.empty() ? Ending::kNo : ending(from, size);
    if (ends == Ending::kYes) {
      end_value(out);
      return become(State::kBody, from + glm4_moe_tags::kValueClose.size());
    }
    if (ends == Ending::kWait || (close.undecided && !last_)) break;
    add_value(std::string_view(held_).substr(from, size), out);
    from += size;
  }
  held_.erase(0, from);
  return Progress::kWait;
}

}  // namespace ft
