#include "base/ascii.h"

#include <gtest/gtest.h>

namespace ft::ascii_test {
namespace {

TEST(Ascii, OnlyLettersOfAsciiBecomeSmall) { EXPECT_EQ(lower("Data:AZ[`\xC3\x84"), "data:az[`\xC3\x84"); }

TEST(Ascii, WholeEscapesAreDecodedAndOthersStay) {
  EXPECT_EQ(percent_decoded("a%2Bb%2f"), "a+b/");
  EXPECT_EQ(percent_decoded("%4%zz%-1%+1%"), "%4%zz%-1%+1%");
  EXPECT_EQ(percent_decoded("%2541"), "%41") << "once";
}

}  // namespace
}  // namespace ft::ascii_test
