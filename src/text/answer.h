// Answer: converts the token ids of one answer to events for a client: detokenizer, thinking, tool calls,
// then stop strings. Stop strings end the content: they do not match in reasoning or tool calls, where
// hosted services do not match them either. The engine and the command line make one for each request. The
// events, joined by kind, are the same for every split of the answer into pushes. create() refuses invalid
// stop strings and tools; push and finish cannot fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/answer_event.h"
#include "text/chat_format.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/thinking.h"
#include "text/tokenizer.h"
#include "text/tool_parser.h"

namespace ft {

struct AnswerOptions {
  std::vector<std::string> stops;
  bool skip_special = true;          // leave out end tokens and other special ones
  bool split_reasoning = true;       // or its tags stay in the content, where stop strings match
  bool starts_in_reasoning = false;  // prompt_opens_thinking
  bool parse_tools = false;          // for requests with tools, or calls stay in the content
  bool tool_call_ends_reasoning =
      true;                       // if parse_tools; off for a grammar, whose reasoning ends with its tag
  bool calls_come_first = false;  // if parse_tools: content that does not start with a call has none
  std::string tools_json;         // the request's tools, for their parameter types
};

class Answer {
 public:
  /// `tokenizer` and `format` outlive this object.
  static Result<Answer> create(const Tokenizer& tokenizer, const ChatFormat& format,
                               const AnswerOptions& options);

  /// The events of the next token. After a stop string has matched, there are none.
  std::vector<AnswerEvent> push(int32_t id);

  /// Ends the answer and returns the text that was held back. `cut`: a length, a stop string or a cancel
  /// ended it, not the model's end token; an open call then gets no kToolEnd. Call it once.
  std::vector<AnswerEvent> finish(bool cut);

  /// Index of the stop string that ended the answer, set as soon as push finds it: stop generating.
  std::optional<size_t> matched_stop() const { return matched_stop_; }
  /// Calls started so far; finish_reason is "tool_calls" if there are any.
  size_t tool_calls() const { return tools_ ? tools_->calls() : 0; }
  /// True inside the reasoning; a thinking budget uses this.
  bool in_reasoning() const {
    return thinking_ ? thinking_->in_reasoning() : tools_ != nullptr && tools_->in_reasoning();
  }

 private:
  Answer(Detokenizer detokenizer, StopMatcher stops)
      : detokenizer_(std::move(detokenizer)), stops_(std::move(stops)) {}

  void take_text(std::string_view text, std::vector<AnswerEvent>& events);
  void take_piece(const ThinkingSplitter::Piece& piece, std::vector<AnswerEvent>& events);
  void take_tool_events(std::vector<AnswerEvent> found, std::vector<AnswerEvent>& events);
  void take_content(std::string_view content, std::vector<AnswerEvent>& events);

  bool take_for_calls(std::string_view content);

  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::optional<ThinkingSplitter> thinking_;
  std::unique_ptr<ToolParser> tools_;
  char call_begins_ = 0;                          // the first character of a call
  bool calls_come_first_ = false, first_ = true;  // nothing but white space so far
  std::optional<size_t> matched_stop_;
};

}  // namespace ft
