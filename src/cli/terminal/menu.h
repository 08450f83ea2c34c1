// Questions at a terminal: a list to choose from with the arrow keys or a number, and yes or no. On a dumb
// terminal the list is numbered and a line is read. Draws on stderr in ASCII, within the terminal's width and
// without broken words. Typed-ahead input stays for the next question or program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/terminal.h"

namespace ft::cli {

struct MenuRow {
  std::string text;
  bool heading = false;   // cannot be chosen
  std::string name = {};  // before the text, in a separate column; it may be shortened
};

class Menu {
 public:
  explicit Menu(Terminal& terminal);

  /// Whether stdin and stderr are a terminal.
  static bool can_ask(const Terminal& terminal);

  /// The index of the row that was chosen; Enter takes the first. `help` answers '?'. Nothing after q, Ctrl-C
  /// or the end of input.
  std::optional<std::size_t> choose(const std::string& title, const std::vector<MenuRow>& rows,
                                    const std::string& help);
  /// Enter answers `usual`.
  std::optional<bool> confirm(const std::string& question, bool usual);
  /// A line of text; nothing after Ctrl-C or at the end of input.
  std::optional<std::string> line(const std::string& prompt);

 private:
  std::optional<std::size_t> choose_by_keys(const std::string& title, const std::vector<MenuRow>& rows,
                                            const std::string& help);
  std::optional<std::size_t> choose_by_line(const std::string& title, const std::vector<MenuRow>& rows,
                                            const std::string& help);
  std::size_t draw(const std::vector<MenuRow>& rows, std::size_t selected, const std::string& typed);
  std::string cut(const std::string& text) const;
  std::vector<std::string> shown(const std::vector<MenuRow>& rows) const;
  std::string wrapped(const std::string& text) const;

  Terminal& terminal_;
  bool keys_;  // arrows work
};

}  // namespace ft::cli
