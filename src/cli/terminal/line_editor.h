// Reads lines from the user: through libedit with history on a terminal, plainly from a pipe. A backslash at
// the end of a line continues it. Ctrl-C abandons the line, not the program. A history file that cannot be
// written only causes a note.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace ft::cli {

class LineEditor {
 public:
  /// `history_file`: empty for none; its folder is created.
  LineEditor(const std::string& history_file, bool interactive);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next logical line without its newline; empty after Ctrl-C; nullopt at the end of input.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct Edited;
  std::optional<std::string> read_one(const std::string& prompt);
  std::optional<std::string> read_plain();

  std::unique_ptr<Edited> edited_;  // null: plain
  std::string buffer_;              // plain: read but not returned yet
  bool at_end_ = false;
};

/// $XDG_STATE_HOME/foretoken/history, else ~/.local/state/foretoken/history; empty if HOME is not set.
std::string history_path();

}  // namespace ft::cli
