#include "cli/terminal/word_wrap.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace ft::cli::word_wrap_test {
namespace {

/// The text as shown, given in pieces of `piece` characters (ASCII only where it is not the whole).
std::string shown(std::string_view text, std::size_t columns, std::size_t piece = std::string_view::npos) {
  WordWrap wrap(columns);
  std::string all;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    all += wrap.add(text.substr(0, piece));
  return all + wrap.end();
}

TEST(WordWrap, LinesBreakBetweenWordsHoweverTheTextComes) {
  const std::string text = "The sky is blue because of scattering.\n\nIt is known since 1871.\n";
  for (std::size_t piece = 1; piece < text.size(); ++piece) {
    EXPECT_EQ(shown(text, 12, piece),
              "The sky is\nblue because\nof\nscattering.\n\nIt is known\nsince 1871.\n");
  }
}

TEST(WordWrap, WhatIsShownLacksOnlyTheWordThatMayGoOn) {
  WordWrap wrap(40);
  EXPECT_EQ(wrap.add("The sc"), "The");
  EXPECT_EQ(wrap.add("atter"), "");
  EXPECT_EQ(wrap.add("ing of"), " scattering");
  EXPECT_EQ(wrap.end(), " of");
}

TEST(WordWrap, CodeAndTablesStayAsTheyAre) {
  for (const std::string& text : std::vector<std::string>{
           "```python\nprint('a long line of code')  # stays\n```\n", "    indented code that is long\n",
           "| a table | with a long row | of cells |\n", "a\ttab keeps the line whole\n"}) {
    for (const std::size_t piece : {1U, 3U, 100U}) EXPECT_EQ(shown(text, 12, piece), text) << piece;
  }
  EXPECT_EQ(shown("```\nx = 1  # not broken\n```\nafter it lines break\n", 12),
            "```\nx = 1  # not broken\n```\nafter it\nlines break\n");
}

TEST(WordWrap, AWordThatIsTooWideIsShownWholeAndAtOnce) {
  WordWrap wrap(10);
  EXPECT_EQ(wrap.add("see https://"), "see");
  EXPECT_EQ(wrap.add("example.org/a"), "\nhttps://example.org/a");
  EXPECT_EQ(wrap.add("/b"), "/b");
  EXPECT_EQ(wrap.add(" and on"), "\nand");
  EXPECT_EQ(wrap.end(), " on");
}

TEST(WordWrap, TextWithoutSpacesBreaksBetweenWideCharacters) {
  const std::string text = "\u4f60\u597d\u4e16\u754c";
  EXPECT_EQ(shown(text, 4), "\u4f60\u597d\n\u4e16\u754c");
  EXPECT_EQ(shown("\u201cquoted\u201d \u2014 text", 10), "\u201cquoted\u201d \u2014\ntext")
      << "quotes are narrow";
}

}  // namespace
}  // namespace ft::cli::word_wrap_test
