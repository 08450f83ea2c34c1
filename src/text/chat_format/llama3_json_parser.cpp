#include "text/chat_format/llama3_json_parser.h"

#include <algorithm>
#include <optional>

#include "text/hermes_call.h"
#include "text/tags.h"

namespace ft {

namespace {

/// Reads the beginning of a call piece by piece; `ended` if the text ends before the pieces do.
class Beginning {
 public:
  explicit Beginning(std::string_view text) : rest_(text) {}

  bool ended() const { return ended_; }
  std::string_view rest() const { return rest_; }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kTagSpace), rest_.size())); }

  /// True if `piece` is next; false, and `ended`, if the text ends within it.
  bool take(std::string_view piece) {
    skip_space();
    if (rest_.starts_with(piece)) {
      rest_.remove_prefix(piece.size());
      return true;
    }
    ended_ = ended_ || piece.starts_with(rest_);
    return false;
  }

  /// The name up to its quote; nullopt, and `ended`, if the text ends within it.
  std::optional<std::string_view> name() {
    const size_t end = rest_.substr(0, kMaxCallName + 1).find('"');
    ended_ = ended_ || (end == std::string_view::npos && rest_.size() <= kMaxCallName);
    if (end == std::string_view::npos) return std::nullopt;
    return rest_.substr(0, end);
  }

 private:
  std::string_view rest_;
  bool ended_ = false;
};

enum class Verdict { kCall, kMore, kText };

/// `at`: where the object begins.
Verdict begins_call(std::string_view text, const ToolSchemas& schemas, size_t& at) {
  Beginning beginning(text);
  beginning.take(Llama3JsonParser::kTag);
  beginning.skip_space();
  at = text.size() - beginning.rest().size();
  const auto all = [&](std::initializer_list<std::string_view> pieces) {
    return std::ranges::all_of(pieces, [&](std::string_view piece) { return beginning.take(piece); });
  };
  if (!beginning.take("{")) return beginning.ended() ? Verdict::kMore : Verdict::kText;
  if (beginning.take("\"type\"") && !all({":", "\"function\"", ","}))
    return beginning.ended() ? Verdict::kMore : Verdict::kText;
  if (!all({"\"name\"", ":", "\""})) return beginning.ended() ? Verdict::kMore : Verdict::kText;
  const std::optional<std::string_view> name = beginning.name();
  if (!name) return beginning.ended() ? Verdict::kMore : Verdict::kText;
  return schemas.has_tool(*name) ? Verdict::kCall : Verdict::kText;
}

}  // namespace

void Llama3JsonParser::push(std::string_view text, std::vector<AnswerEvent>& out) {
  held_ += text;
  while (step(out)) {
  }
}

/// False: more text is needed.
bool Llama3JsonParser::step(std::vector<AnswerEvent>& out) {
  if (state_ == State::kText) {
    content(out);
    return false;
  }
  if (state_ == State::kUndecided) {
    if (calls_ > 0) held_.erase(0, std::min(held_.find_first_not_of(" \t\r\n;"), held_.size()));
    size_t at = 0;
    const Verdict verdict = begins_call(held_, schemas_, at);
    if (verdict == Verdict::kMore) return false;
    seen_ = 0, scan_ = {};
    if (verdict == Verdict::kText) {
      become_text();
    } else {
      held_.erase(0, at);
      state_ = State::kCall;
    }
    return true;
  }
  seen_ += scan_.push_to_end(std::string_view(held_).substr(seen_));
  if (!scan_.ended()) return false;
  const bool called = take_call(std::string_view(held_).substr(0, seen_), out);
  if (called) held_.erase(0, seen_);
  state_ = called ? State::kUndecided : State::kText;
  return true;
}

bool Llama3JsonParser::take_call(std::string_view json, std::vector<AnswerEvent>& out) {
  const std::optional<HermesCall> call = parse_hermes_call(json);
  if (!call) return false;
  ++calls_;
  emit(AnswerEvent::Kind::kToolBegin, call->name, out);
  emit(AnswerEvent::Kind::kToolArguments, call->arguments, out);
  emit(AnswerEvent::Kind::kToolEnd, "", out);
  return true;
}

void Llama3JsonParser::finish(bool cut, std::vector<AnswerEvent>& out) {
  if (state_ == State::kCall && cut) {
    if (const std::optional<HermesCall> begun = parse_cut_hermes_call(held_)) {
      ++calls_;
      emit(AnswerEvent::Kind::kToolBegin, begun->name, out);
      emit(AnswerEvent::Kind::kToolArguments, begun->arguments, out);
      held_.clear();
    }
  } else if (state_ == State::kCall && take_call(held_ + "}", out)) {  // models forget the last brace
    held_.clear();
  }
  if (state_ == State::kUndecided) become_text();
  content(out);
  state_ = State::kUndecided;
}

void Llama3JsonParser::content(std::vector<AnswerEvent>& out) {
  emit(AnswerEvent::Kind::kText, held_, out);
  held_.clear();
}

/// Text that was held as the beginning of a call: the tag before it is dropped.
void Llama3JsonParser::become_text() {
  const size_t start = std::min(held_.find_first_not_of(kTagSpace), held_.size());
  if (std::string_view(held_).substr(start).starts_with(kTag)) held_.erase(0, start + kTag.size());
  state_ = State::kText;
}

}  // namespace ft
