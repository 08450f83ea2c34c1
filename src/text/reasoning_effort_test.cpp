#include "text/reasoning_effort.h"

#include <gtest/gtest.h>

namespace ft::reasoning_effort_test {
namespace {

/// The words for kEfforts, in order.
std::string words(std::string_view source) {
  std::string all;
  for (const std::string_view effort : kEfforts) all += effort_word(source, effort) + " ";
  return all;
}

TEST(ReasoningEffort, Qwen38GetsOnlyTheWordsThatItDoesNotRefuse) {
  EXPECT_EQ(
      words("{%- set e = reasoning_effort|default('xhigh') %}{%- if e not in ['xhigh', 'medium', 'low'] "
            "%}{{ raise_exception('no') }}{%- endif %}"),
      "low low medium xhigh xhigh xhigh ");
}

TEST(ReasoningEffort, ATemplateThatQuotesAllGetsAll) {
  EXPECT_EQ(words(R"({{ reasoning_effort }} "minimal" "low" "medium" "high" "xhigh" "max")"),
            "minimal low medium high xhigh max ");
}

TEST(ReasoningEffort, ATemplateThatPrintsTheWordGetsTheOrdinaryThree) {
  EXPECT_EQ(
      words("{%- if reasoning_effort is not defined %}{%- set reasoning_effort = 'medium' %}{%- endif %}"
            "Reasoning: {{ reasoning_effort }}"),
      "low low medium high high high ");
}

TEST(ReasoningEffort, ATemplateOfTwoWordsGetsTheNearest) {
  EXPECT_EQ(words("reasoning_effort 'high' 'max'"), "high high high high max max ");
}

TEST(ReasoningEffort, ATemplateWithoutTheVariableGetsNone) {
  EXPECT_EQ(words("'low' 'high' {{ enable_thinking }}"), "      ");
  EXPECT_EQ(effort_word("reasoning_effort", "banana"), "");
}

}  // namespace
}  // namespace ft::reasoning_effort_test
