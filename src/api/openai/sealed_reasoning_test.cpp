#include "api/openai/sealed_reasoning.h"

#include <gtest/gtest.h>

namespace ft::api::sealed_reasoning_test {
namespace {

TEST(SealedReasoning, ComesBackAsItWas) {
  for (const std::string& text :
       {std::string(), std::string("Hm \xF0\x9F\xA6\x89\n"), std::string(10'000, 'x')}) {
    EXPECT_EQ(open_reasoning(seal_reasoning(text)), text);
  }
}

TEST(SealedReasoning, DamagedAndForeignContentIsNotRead) {
  const std::string sealed = seal_reasoning("I think that it is Oslo.");
  EXPECT_EQ(open_reasoning("gAAAAABn0a"), std::nullopt);
  EXPECT_EQ(open_reasoning(""), std::nullopt);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] = damaged[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(open_reasoning(damaged), std::nullopt) << i;
    EXPECT_EQ(open_reasoning(sealed.substr(0, i)), std::nullopt) << i;
  }
}

}  // namespace
}  // namespace ft::api::sealed_reasoning_test
