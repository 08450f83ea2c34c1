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

TEST(Ascii, WhatIsEncodedIsDecodedToItself) {
  EXPECT_EQ(percent_encoded("a b/c?=\xC3\x84~", true), "a%20b/c%3F%3D%C3%84~");
  EXPECT_EQ(percent_encoded("a/b", false), "a%2Fb");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    EXPECT_EQ(percent_decoded(percent_encoded(text, false)), text) << byte;
  }
}

}  // namespace
}  // namespace ft::ascii_test
