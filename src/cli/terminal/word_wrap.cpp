#include "cli/terminal/word_wrap.h"

#include <algorithm>

#include "base/utf8.h"

namespace ft::cli {
namespace {

constexpr std::size_t kHead = 3;        // of a line: a fence has as many
constexpr std::size_t kCodeIndent = 4;  // blanks that make a line code
constexpr std::string_view kFence = "```";

struct Range {
  std::string_view first, last;
};

/// Characters of East Asia and pictures: two columns, and a line may break before each.
constexpr Range kWide[] = {{"\u1100", "\u115f"}, {"\u2e80", "\ua4cf"}, {"\uac00", "\ud7a3"},
                           {"\uf900", "\ufaff"}, {"\uff00", "\uff60"}, {"\U0001f300", "\U0003fffd"}};

/// UTF-8 sorts as its characters do.
bool is_wide(std::string_view character) {
  return std::ranges::any_of(
      kWide, [&](const Range& range) { return range.first <= character && character <= range.last; });
}

}  // namespace

void WordWrap::show_word(std::string& shown) {
  if (word_.empty()) return;
  if (breaks() && used_ > 0 && used_ + blanks_.size() + word_width_ > columns_) {
    shown += '\n';
    used_ = 0;
  } else {
    shown += blanks_;
    used_ += blanks_.size();
  }
  shown += word_;
  used_ += word_width_;
  blanks_.clear(), word_.clear();
  word_width_ = 0;
}

void WordWrap::end_line(std::string& shown) {
  show_word(shown);
  if (!breaks()) shown += blanks_;
  shown += '\n';
  if (head_ == kFence) fenced_ = !fenced_;
  blanks_.clear(), head_.clear();
  used_ = 0;
  verbatim_ = too_wide_ = false;
}

void WordWrap::add_character(std::string_view character, std::string& shown) {
  if (character == "\n") return end_line(shown);
  if (character == " " || character == "\t") {
    show_word(shown);
    too_wide_ = false;
    blanks_ += character;
    if (character == "\t" || (head_.empty() && blanks_.size() >= kCodeIndent)) verbatim_ = true;
    return;
  }
  if (head_.empty() && character == "|") verbatim_ = true;
  if (head_.size() < kHead) head_ += character;
  const bool wide = is_wide(character);
  if (wide) show_word(shown);
  word_ += character;
  word_width_ += wide ? 2 : 1;
  if (wide || !breaks()) return show_word(shown);
  if (word_width_ < columns_) return;
  show_word(shown);
  too_wide_ = true;
}

std::string WordWrap::add(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    std::size_t size = 1;
    while (size < text.size() && !utf8_begins(text[size])) ++size;
    add_character(text.substr(0, size), shown);
    text.remove_prefix(size);
  }
  return shown;
}

std::string WordWrap::end() {
  std::string shown;
  show_word(shown);
  return shown;
}

}  // namespace ft::cli
