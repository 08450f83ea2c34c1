// Breaks the lines of an answer between words while it streams. A word is held back until it ends. Fenced and
// indented code and the rows of tables stay as they are, and so does a word that is wider than a line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ft::cli {

class WordWrap {
 public:
  explicit WordWrap(std::size_t columns) : columns_(columns) {}

  /// Returns what can be shown now. `text` is whole characters of UTF-8.
  std::string add(std::string_view text);
  /// The word that was held back.
  std::string end();

 private:
  void add_character(std::string_view character, std::string& shown);
  void show_word(std::string& shown);
  void end_line(std::string& shown);
  bool breaks() const { return !verbatim_ && !fenced_ && !too_wide_; }

  std::size_t columns_;
  std::size_t used_ = 0;       // columns of this line that are shown
  std::string blanks_, word_;  // held back
  std::size_t word_width_ = 0;
  std::string head_;       // the first three characters of this line, without blanks
  bool verbatim_ = false;  // this line
  bool fenced_ = false;    // this line is in a block of code
  bool too_wide_ = false;  // this word is shown as it comes
};

}  // namespace ft::cli
