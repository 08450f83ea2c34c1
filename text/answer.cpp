#include "text/answer.h"

#include <utility>

namespace ft {

namespace {

void add(AnswerEvent::Kind kind, std::string text, std::vector<AnswerEvent>& events) {
  if (!text.empty()) {
    events.push_back({kind, std::move(text)});
  }
}

void add_tool_events(std::vector<ToolEvent> found, std::vector<AnswerEvent>& events) {
  for (ToolEvent& event : found) {
    switch (event.kind) {
      case ToolEvent::Kind::kContent:
        add(AnswerEvent::Kind::kContent, std::move(event.text), events);
        break;
      case ToolEvent::Kind::kBegin:
        events.push_back({AnswerEvent::Kind::kToolBegin, std::move(event.text)});
        break;
      case ToolEvent::Kind::kArguments:
        events.push_back({AnswerEvent::Kind::kToolArguments, std::move(event.text)});
        break;
      case ToolEvent::Kind::kEnd:
        events.push_back({AnswerEvent::Kind::kToolEnd, ""});
        break;
    }
  }
}

std::vector<int32_t> marks_of(const Tokenizer& tokenizer, const ChatFormat& format) {
  std::vector<int32_t> marks;
  for (const std::string_view mark : format.marks) {
    if (const std::optional<int32_t> id = tokenizer.id_of(mark)) marks.push_back(*id);
  }
  return marks;
}

}  // namespace

Result<Answer> Answer::create(const Tokenizer& tokenizer, const ChatFormat& format,
                              const AnswerOptions& options) {
  FT_ASSIGN(StopMatcher stops, StopMatcher::create(options.stops));
  Answer answer(Detokenizer(tokenizer, options.skip_special, marks_of(tokenizer, format)), std::move(stops));
  if (options.split_reasoning) {
    ThinkingOptions thinking;
    thinking.starts_in_reasoning = options.starts_in_reasoning;
    thinking.tool_call_ends_reasoning = options.parse_tools && options.tool_call_ends_reasoning;
    answer.thinking_.emplace(format, thinking);
  }
  if (options.parse_tools && format.calls.parser != nullptr) {
    FT_ASSIGN(ToolSchemas schemas, ToolSchemas::parse(options.tools_json));
    answer.tools_ = format.calls.parser(std::move(schemas));
    answer.call_begins_ = format.calls.begin.front();
    answer.calls_come_first_ = options.calls_come_first;
  }
  return answer;
}

std::vector<AnswerEvent> Answer::push(int32_t id) {
  std::vector<AnswerEvent> events;
  if (!matched_stop_) {
    StopMatcher::Piece piece = stops_.push(detokenizer_.push(id));
    matched_stop_ = piece.match;
    take_text(piece.text, events);
  }
  return events;
}

std::vector<AnswerEvent> Answer::finish() {
  std::vector<AnswerEvent> events;
  if (!matched_stop_) {
    StopMatcher::Piece piece = stops_.push(detokenizer_.flush());
    matched_stop_ = piece.match;
    take_text(piece.text + stops_.flush(), events);
  }
  if (thinking_) {
    take_piece(thinking_->finish(), events);
  }
  if (tools_) {
    std::vector<ToolEvent> found;
    tools_->finish(found);
    add_tool_events(std::move(found), events);
  }
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
    std::vector<ToolEvent> found;
    tools_->push(piece.content, found);
    add_tool_events(std::move(found), events);
  } else {
    add(AnswerEvent::Kind::kContent, piece.content, events);
  }
}

}  // namespace ft
