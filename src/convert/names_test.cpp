#include "convert/names.h"

#include <gtest/gtest.h>

namespace ft::convert::names_test {
namespace {

TEST(ConversionNames, ExpertsOfGptOssStayInTheirModule) {
  const auto names = find_names("gpt_oss", "dir/config.json");
  ASSERT_TRUE(names.ok());
  ExpertPart part;
  ASSERT_TRUE(read_expert_part(**names, "layers.3.mlp.experts.up_proj.weight", part));
  EXPECT_EQ(expert_name(**names, part, part.projection), "layers.3.mlp.experts.up_proj.weight");
  EXPECT_FALSE(read_expert_part(**names, "layers.3.mlp.experts.up_proj.bias", part));
  EXPECT_EQ(kind_of(**names, "layers.3.mlp.experts.up_proj.bias", 2), TensorKind::kAsStored);
  EXPECT_EQ(kind_of(**names, "layers.3.mlp.router.weight", 2), TensorKind::kSmall);
}

TEST(ConversionNames, AnUnknownTypeIsNamed) {
  const auto refused = find_names("mamba", "dir/config.json");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().message.find("found 'mamba'"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace ft::convert::names_test
