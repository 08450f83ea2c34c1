#include "text/lark_rules.h"

#include <gtest/gtest.h>

namespace ft::lark_rules_test {
namespace {

TEST(LarkRules, EqualOnesAreShared) {
  EXPECT_EQ(shared_lark_rules("start: a | b\n"
                              "a: a_x \"1\"\n"
                              "a_x: A_T0\n"
                              "A_T0: /[a-z]+/\n"
                              "b: b_x \"2\"\n"
                              "b_x: B_T0\n"
                              "B_T0: /[a-z]+/\n"),
            "start: a | b\n"
            "a: a_x \"1\"\n"
            "a_x: A_T0\n"
            "A_T0: /[a-z]+/\n"
            "b: a_x \"2\"\n")
      << "b_x is the same once its terminal is";
}

TEST(LarkRules, ARuleMayReferToItself) {
  EXPECT_EQ(shared_lark_rules("start: p q\np: \"[\" p* \"]\"\nq: \"[\" q* \"]\"\n"),
            "start: p p\np: \"[\" p* \"]\"\n");
}

TEST(LarkRules, LongChainsTakeFewPasses) {
  std::string both = "start: a0 b0\n", one = "start: a0 a0\n";
  for (const char* name : {"a", "b"}) {
    std::string rules;  // each names the next one, which is before it, as lists of properties do
    for (int i = 2000; i > 0; --i) {
      const std::string next = i == 2000 ? "" : " " + (name + std::to_string(i));
      rules += name + std::to_string(i - 1) + ": \"x\"" + next + "\n";
    }
    both += rules;
    if (*name == 'a') one += rules;
  }
  EXPECT_EQ(shared_lark_rules(both), one);
}

TEST(LarkRules, NamesInsideLiteralsStay) {
  EXPECT_EQ(shared_lark_rules("start: a \"b\" /b\\/b/ %json {\"b\": \"}\\\"b\", \"c\": {}} b\n"
                              "a: \"x\"\n"
                              "b: \"x\"\n"),
            "start: a \"b\" /b\\/b/ %json {\"b\": \"}\\\"b\", \"c\": {}} a\n"
            "a: \"x\"\n");
}

TEST(LarkRules, ATerminalIsNotARule) {
  const std::string both = "start: a A\na: \"x\"\nA: \"x\"\n";
  EXPECT_EQ(shared_lark_rules(both), both);
}

TEST(LarkRules, LinesWithAttributesStay) {
  const std::string both = "start: a b\na[suffix=\"x\"]: /y/\nb[suffix=\"x\"]: /y/\n";
  EXPECT_EQ(shared_lark_rules(both), both);
}

TEST(LarkRules, UnfinishedLiteralsEnd) {
  for (const char* text : {"a: \"", "a: /", "a: %json ", "a: %json {\"", "a: ", ":", "a: \"\\"})
    EXPECT_EQ(shared_lark_rules(text), std::string(text) + "\n") << text;
  EXPECT_EQ(shared_lark_rules(""), "");
}

}  // namespace
}  // namespace ft::lark_rules_test
