#include "convert/names.h"

#include <gtest/gtest.h>

namespace ft::convert::names_test {
namespace {

TEST(ConversionNames, AFamilyWhoseFilesRunAsTheyAreIsNotConverted) {
  EXPECT_TRUE(find_names("qwen3_moe", "dir/config.json").ok());
  const auto refused = find_names("gpt_oss", "dir/config.json");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("its published files run as they are"), std::string::npos);
}

}  // namespace
}  // namespace ft::convert::names_test
