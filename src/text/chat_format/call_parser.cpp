#include "text/chat_format/call_parser.h"

#include <algorithm>

#include "text/json_text.h"
#include "text/tags.h"

namespace ft {

namespace {

constexpr int kMaxOpenStrings = 16;  // of an answer, for which the text after them is searched
constexpr int kMaxJsonNesting = 100;

}  // namespace

/// Emits `text` but holds white space until other text follows.
void CallParser::content(std::string_view text, std::vector<AnswerEvent>& out) {
  if (swallow_) {
    text.remove_prefix(std::min(text.find_first_not_of(kTagSpace), text.size()));
  }
  if (text.empty()) {
    return;
  }
  swallow_ = false;
  const size_t shown = text.find_last_not_of(kTagSpace) + 1;
  if (shown > 0) {
    emit(AnswerEvent::Kind::kText, std::exchange(space_, {}) + std::string(text.substr(0, shown)), out);
  }
  space_ += text.substr(shown);
}

void CallParser::begin_call(std::string_view name, std::vector<AnswerEvent>& out) {
  name_ = name;
  keys_.clear(), values_.clear();
  waits_ = schemas_.alternatives(name) > 1;
  ++calls_;
  swallow_ = true;
  emit(AnswerEvent::Kind::kToolBegin, name, out);
}

void CallParser::end_call(std::vector<AnswerEvent>& out) {
  std::string rest = keys_.empty() ? "{}" : "}";
  if (waits_) rest = arguments_of_call(schemas_, name_, values_, reader());
  emit(AnswerEvent::Kind::kToolArguments, rest, out);
  emit(AnswerEvent::Kind::kToolEnd, "", out);
  waits_ = false;
}

void CallParser::begin_value(std::vector<AnswerEvent>& out) {
  repeated_ = !keys_.insert(key_).second;
  streams_ = !waits_ && schemas_.type_of(name_, key_).is_plain_string();
  value_.clear();
  scan_ = {}, looked_ = 0;
  if (repeated_ || waits_) return;
  const std::string start =
      (keys_.size() == 1 ? "{" : ",") + json_quoted(key_) + ":" + (streams_ ? "\"" : "");
  emit(AnswerEvent::Kind::kToolArguments, start, out);
}

void CallParser::add_value(std::string_view text, std::vector<AnswerEvent>& out) {
  if (!streams_) {
    value_ += text;
    scan_.push(text);
    return;
  }
  if (repeated_) return;
  std::string escaped;
  append_json_escaped(text, escaped);
  emit(AnswerEvent::Kind::kToolArguments, escaped, out);
}

void CallParser::end_value(std::vector<AnswerEvent>& out) {
  if (repeated_) return;
  if (waits_) {
    values_.push_back({key_, value_});
  } else {
    emit(AnswerEvent::Kind::kToolArguments, streams_ ? "\"" : reader()(value_, schemas_.type_of(name_, key_)),
         out);
  }
}

CallParser::Ending CallParser::ending_in_string(std::string_view rest,
                                                std::span<const std::string_view> close, size_t& size) {
  if (open_strings_ == kMaxOpenStrings) return Ending::kYes;
  if (looked_ == 0) ahead_ = scan_;
  looked_ += ahead_.push_to_end(rest.substr(looked_));
  if (!ahead_.ended() && !last_) return Ending::kWait;
  bool follows = false;
  if (ahead_.ended()) {
    const std::string_view after = rest.substr(looked_);
    TagMatch::Kind found = TagMatch::kNone;
    for (const std::string_view tag : close) found = std::max(found, match_tag(after, {}, tag).kind);
    if (found == TagMatch::kPartial && !last_) return Ending::kWait;
    const bool all_read = last_ && after.find_first_not_of(kTagSpace) == std::string_view::npos;
    follows = found == TagMatch::kFull || all_read;
  }
  size = std::exchange(looked_, 0);
  if (follows && is_json(value_ + std::string(rest.substr(0, size)), kMaxJsonNesting)) return Ending::kNo;
  ++open_strings_;
  return Ending::kYes;
}

void CallParser::cut_call(bool open, std::vector<AnswerEvent>& out) {
  open = open && !repeated_;
  const CallValue begun{key_, value_};
  if (waits_) {
    emit(AnswerEvent::Kind::kToolArguments,
         arguments_of_cut_call(schemas_, name_, values_, open ? &begun : nullptr, reader(), cut_reader()),
         out);
  } else if (open && !streams_) {
    emit(AnswerEvent::Kind::kToolArguments, cut_reader()(value_, schemas_.type_of(name_, key_)), out);
  }
}

}  // namespace ft
