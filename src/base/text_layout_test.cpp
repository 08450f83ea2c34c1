#include "base/text_layout.h"

#include <gtest/gtest.h>

namespace ft::text_layout_test {
namespace {

TEST(TextLayout, LinesBreakBetweenWordsBelowTheirDescription) {
  EXPECT_EQ(wrapped_text("  graft    Give a model the head of another\nshort\n", 30),
            "  graft    Give a model the\n           head of another\nshort\n");
  EXPECT_EQ(wrapped_text("one two three four five six\n", 11), "one two\nthree four\nfive six\n");
  EXPECT_EQ(wrapped_text("  one two three", 10), "  one two\n  three");
}

TEST(TextLayout, ColoursTakeNoColumns) {
  EXPECT_EQ(text_width("\x1b[32mgood\x1b[0m  \u00e9"), 7);
  EXPECT_EQ(text_width("\x1b["), 0);
  EXPECT_EQ(wrapped_text("\x1b[32mgood  \x1b[0mone two three", 13),
            "\x1b[32mgood  \x1b[0mone two\n      three");
}

TEST(TextLayout, AWordThatIsTooLongStaysWholeAndNothingIsLost) {
  EXPECT_EQ(wrapped_text("see /a/very/long/path now", 8), "see\n/a/very/long/path\nnow");
  const std::string text = "  --flag VALUE   What it does, its values and its default: 12\n\nAfter it.\n";
  for (std::size_t columns = 1; columns < 80; ++columns) {
    std::string words = wrapped_text(text, columns), given = text;
    for (std::string* each : {&words, &given})
      std::erase_if(*each, [](char c) { return c == ' ' || c == '\n'; });
    EXPECT_EQ(words, given) << columns;
  }
}

TEST(TextLayout, AShortenedNameKeepsMakerAndSize) {
  EXPECT_EQ(shortened("mlx-community/Qwen3.5-4B-OptiQ-4bit", 33), "mlx-community/Qwen3.5-4B-Op...bit");

  EXPECT_EQ(shortened("community/model", 15), "community/model");
  EXPECT_EQ(shortened("community/model", 8), "commu...");
  EXPECT_EQ(shortened("aé€x", 4), "aé€x");
  EXPECT_EQ(shortened("aé€éxx", 5), "aé...");
}

TEST(TextLayout, ATableLeavesOutWhatItCanSpareAndThenShortensNames) {
  const std::vector<std::vector<std::string>> rows = {
      {"model", "family", "size", "place"}, {"community/model-of-4-bits", "qwen", "1 GB", "folder"}};
  EXPECT_EQ(fitted_table(rows, {3, 1}, 80), table_text(rows));
  EXPECT_EQ(fitted_table(rows, {3, 1}, 40),
            "model                      family  size\ncommunity/model-of-4-bits  qwen    1 GB\n");
  EXPECT_EQ(fitted_table(rows, {3, 1}, 31),
            "model                      size\ncommunity/model-of-4-bits  1 GB\n");
  EXPECT_EQ(fitted_table(rows, {3, 1}, 20), "model           size\ncommunity/...s  1 GB\n");
  EXPECT_EQ(fitted_table(rows, {3, 1}, 2), "model         size\ncommunit...s  1 GB\n");
}

}  // namespace
}  // namespace ft::text_layout_test
