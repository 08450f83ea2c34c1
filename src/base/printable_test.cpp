#include "base/printable.h"

#include <gtest/gtest.h>

namespace ft::printable_test {
namespace {

TEST(Printable, NoTextOfOthersCommandsATerminal) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\u001b]0;title\\u0007");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J\x7f\r"),
            "\\u009b2J\\u007f\\u000d");
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "gnp.exe"),
            "\\u202egnp.exe");
  EXPECT_EQ(printable("bytes \xff"), "bytes \xEF\xBF\xBD");
  EXPECT_EQ(printable("one line\n\ta Zürich \xF0\x9F\x8E\x89"), "one line\n\ta Zürich \xF0\x9F\x8E\x89");
}

}  // namespace
}  // namespace ft::printable_test
