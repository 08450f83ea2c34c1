#include "sampling/history.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace ft::history_test {
namespace {

TEST(History, CountsOutputsAndListsEachTokenOnceAscending) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    History history;
    std::map<std::int32_t, std::int32_t> expected;
    for (int step = 0; step < 20; ++step) {
      if (random() % 3 == 0) {
        std::vector<std::int32_t> prompt;
        for (unsigned i = random() % 10; i > 0; --i)
          prompt.push_back(static_cast<std::int32_t>(random() % 20));
        history.add_prompt(prompt);
        for (const std::int32_t token : prompt) expected.try_emplace(token, 0);
      } else {
        const auto token = static_cast<std::int32_t>(random() % 20);
        history.add_output(token);
        ++expected[token];
      }
    }
    ASSERT_EQ(history.counts().size(), expected.size());
    std::size_t i = 0;
    for (const auto& [token, output] : expected) {
      ASSERT_EQ(history.counts()[i].token, token);
      ASSERT_EQ(history.counts()[i].output, output);
      ++i;
    }
  }
}

}  // namespace
}  // namespace ft::history_test
