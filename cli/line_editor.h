// Lines from the user: edited by libedit with history where a terminal reads and writes, plain otherwise
// (pipes). A backslash at the end of a line joins the next one. Ctrl-C leaves the line, not the program.
// Owner: chat. Thread: one. Cost: waits for the user. Errors: a history file that cannot be written is only
// noted.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace ft::cli {

class LineEditor {
 public:
  /// `history_file`: empty for none; its folder is made.
  LineEditor(const std::string& history_file, bool interactive);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next logical line without its newline; empty after Ctrl-C; nothing at the end of the input.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct Edited;
  std::optional<std::string> read_one(const std::string& prompt);
  std::optional<std::string> read_plain();

  std::unique_ptr<Edited> edited_;  // null: plain
  std::string buffer_;              // plain: read but not yet taken
  bool at_end_ = false;
};

/// $XDG_STATE_HOME/foretoken/history, else ~/.local/state/foretoken/history; empty without a home.
std::string history_path();

}  // namespace ft::cli
