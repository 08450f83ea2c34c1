#include "text/answer.h"

#include <utility>

namespace ft {

namespace {

void add(AnswerEvent::Kind kind, std::string text, std::vector<AnswerEvent>& events) {
  if (!text.empty()) {
    events.push_back({kind, std::move(text)});
  }
}

std::vector<int32_t> kept_tokens(const Tokenizer& tokenizer, const ChatFormat& format) {
  std::vector<int32_t> kept;
  for (const std::string_view token : format.special_tokens) {
    if (const std::optional<int32_t> id = tokenizer.id_of(token)) kept.push_back(*id);
  }
  return kept;
}

}  // namespace

Result<Answer> Answer::create(const Tokenizer& tokenizer, const ChatFormat& format,
                              const AnswerOptions& options) {
  FT_ASSIGN(StopMatcher stops, StopMatcher::create(options.stops));
  Answer answer(Detokenizer(tokenizer, options.skip_special, kept_tokens(tokenizer, format)),
                std::move(stops));
  if (options.split_reasoning && !format.channels) {
    ThinkingOptions thinking;
    thinking.starts_in_reasoning = options.starts_in_reasoning;
    thinking.tool_call_ends_reasoning = options.parse_tools && options.tool_call_ends_reasoning;
    answer.thinking_.emplace(format, thinking);
  }
  const bool reads = options.parse_tools || (format.channels && options.split_reasoning);
  if (reads && format.calls.parser != nullptr) {
    ToolSchemas schemas;
    if (options.parse_tools) {
      FT_ASSIGN(schemas, ToolSchemas::parse(options.tools_json));
    }
    answer.tools_ = format.calls.parser(std::move(schemas));
    if (format.channels && options.starts_in_reasoning) answer.tools_->begin_in_reasoning();
    answer.call_begins_ = format.calls.begin.front();
    answer.calls_come_first_ = options.calls_come_first && !format.channels;
  }
  return answer;
}

std::vector<AnswerEvent> Answer::push(int32_t id) {
  std::vector<AnswerEvent> events;
  if (!matched_stop_) take_text(detokenizer_.push(id), events);
  return events;
}

std::vector<AnswerEvent> Answer::finish(bool cut) {
  std::vector<AnswerEvent> events;
  if (!matched_stop_) take_text(detokenizer_.flush(), events);
  if (thinking_ && !matched_stop_) take_piece(thinking_->finish(), events);
  if (tools_ && !matched_stop_) {
    std::vector<AnswerEvent> found;
    tools_->finish(cut, found);
    take_tool_events(std::move(found), events);
  }
  if (!matched_stop_) add(AnswerEvent::Kind::kText, stops_.flush(), events);
  return events;
}

void Answer::take_text(std::string_view text, std::vector<AnswerEvent>& events) {
  if (text.empty()) {
    return;
  }
  if (thinking_) {
    take_piece(thinking_->push(text), events);
  } else {
    take_piece({"", std::string(text)}, events);
  }
}

void Answer::take_content(std::string_view content, std::vector<AnswerEvent>& events) {
  StopMatcher::Piece piece = stops_.push(content);
  matched_stop_ = piece.match;
  add(AnswerEvent::Kind::kText, std::move(piece.text), events);
}

/// Nothing after a stop string is shown.
void Answer::take_tool_events(std::vector<AnswerEvent> found, std::vector<AnswerEvent>& events) {
  for (AnswerEvent& event : found) {
    if (matched_stop_) return;
    if (event.kind == AnswerEvent::Kind::kText) {
      take_content(event.text, events);
      continue;
    }
    if (event.kind == AnswerEvent::Kind::kToolBegin) {
      add(AnswerEvent::Kind::kText, stops_.flush(), events);  // a call divides the content
    }
    events.push_back(std::move(event));
  }
}

/// A JSON answer may contain a call's text in its strings, but does not start with one.
bool Answer::take_for_calls(std::string_view content) {
  if (!tools_) return false;
  const size_t begin = content.find_first_not_of(" \t\r\n");
  if (calls_come_first_ && first_ && begin != std::string_view::npos) {
    first_ = false;
    if (content[begin] != call_begins_) tools_.reset();
  }
  return tools_ != nullptr;
}

void Answer::take_piece(const ThinkingSplitter::Piece& piece, std::vector<AnswerEvent>& events) {
  add(AnswerEvent::Kind::kReasoning, piece.reasoning, events);
  if (piece.content.empty()) {
    return;
  }
  if (take_for_calls(piece.content)) {
    std::vector<AnswerEvent> found;
    tools_->push(piece.content, found);
    take_tool_events(std::move(found), events);
  } else {
    take_content(piece.content, events);
  }
}

}  // namespace ft
