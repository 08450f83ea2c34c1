// CallParser: the base of the parsers of calls. A parser holds text back until it is decided, and joins the
// pieces of content and of arguments that follow each other. String parameters stream, except in a tool
// whose parameters have alternatives: its values come together (text/call_values.h).
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/call_values.h"
#include "text/json_scan.h"
#include "text/tool_parser.h"
#include "text/tool_schema.h"

namespace ft {

class CallParser : public ToolParser {
 public:
  size_t calls() const final { return calls_; }

 protected:
  enum class Progress { kMore, kWait };  // look again, or more text is needed

  explicit CallParser(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  /// Joins consecutive pieces of one kind; an empty piece is dropped unless it is a start or an end.
  static void emit(AnswerEvent::Kind kind, std::string_view text, std::vector<AnswerEvent>& out) {
    const bool joins = kind == AnswerEvent::Kind::kText || kind == AnswerEvent::Kind::kReasoning ||
                       kind == AnswerEvent::Kind::kToolArguments;
    if (joins && text.empty()) return;
    if (joins && !out.empty() && out.back().kind == kind) {
      out.back().text += text;
    } else {
      out.push_back({kind, std::string(text)});
    }
  }

  /// Emits `text` but holds white space until other text follows.
  void content(std::string_view text, std::vector<AnswerEvent>& out);
  void begin_call(std::string_view name, std::vector<AnswerEvent>& out);
  void end_call(std::vector<AnswerEvent>& out);
  /// Begins the value of parameter key_; values are typed by the request's schemas.
  void begin_value(std::vector<AnswerEvent>& out);
  void add_value(std::string_view text, std::vector<AnswerEvent>& out);
  void end_value(std::vector<AnswerEvent>& out);

  enum class Ending { kNo, kYes, kWait };
  /// Whether a tag at the front of `rest` ends the value, inside a string of its JSON. A string may hold the
  /// end of a call and the beginning of the next: it continues if the value then becomes JSON that
  /// `close` follows. If not, a model has left the string open. `size`: the bytes up to the end of the JSON.
  Ending ending_in_string(std::string_view rest, std::span<const std::string_view> close, size_t& size);
  bool looks_ahead() const { return looked_ > 0; }
  /// Emits the written part that is still held back of a call that was cut, inside a value if `open`.
  void cut_call(bool open, std::vector<AnswerEvent>& out);

  ToolSchemas schemas_;
  bool last_ = false;  // no more text will come
  std::string held_;   // not yet decided
  std::string space_;  // white space of the content, dropped if a call follows
  size_t calls_ = 0;
  bool swallow_ = false;  // white space after a call, and stray closing tags

  std::string name_;               // of the function
  std::set<std::string> keys_;     // its parameters so far
  std::string key_;                // of the parameter
  std::string value_;              // of the parameter, as written, unless it streams
  bool streams_ = false;           // the value is a plain string
  bool repeated_ = false;          // the key was there before: the value is dropped
  bool waits_ = false;             // the tool has alternatives: its values wait for the call's end
  std::vector<CallValue> values_;  // that wait
  JsonScan scan_;                  // of the value, unless it streams; of a call in JSON

  /// How values are written.
  virtual ValueReader reader() const { return json_of_parameter; }
  virtual ValueReader cut_reader() const { return cut_json_of_parameter; }

 private:
  JsonScan ahead_;     // of the value and of the text after a tag in one of its strings
  size_t looked_ = 0;  // bytes of that text
  int open_strings_ = 0;
};

}  // namespace ft
