// Prints an answer to the terminal as it is generated. Reasoning is dimmed, and goes to stderr if stdout is
// not a terminal, so that a pipe gets the answer alone, as it is. On a terminal lines break between words.
// Tool calls are lines.
#pragma once

#include <optional>

#include "cli/commands/answering.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/word_wrap.h"

namespace ft::cli {

class Streaming {
 public:
  enum class Mode { kShow, kSilent };
  Streaming(Terminal& terminal, Mode mode) : terminal_(terminal), mode_(mode) {}

  void show(const Event& event);
  /// Ends the last line if needed.
  void end();

 private:
  enum class Part { kNone, kReasoning, kText, kTool };
  void enter(Part part);
  void write(std::string_view text);
  void put(std::string_view text);
  void end_part();

  Terminal& terminal_;
  Mode mode_;
  Part part_ = Part::kNone;
  std::optional<WordWrap> wrap_;
  bool open_line_ = false;
};

/// "64 tokens, 210 tokens/s; prompt 20 tokens in 12 ms; mtp drafted 60, accepted 51, 3.2 tokens per round;
/// stop"
std::string answer_note(const GatheredAnswer& answer);

}  // namespace ft::cli
