#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace ft::logprobs_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Logprobs, AreTheLogSoftmaxOfTheRawLogits) {
  std::mt19937 random(2);
  Logprobs out;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random() % 500);
    for (float& logit : logits) logit = static_cast<float>(random() % 60) / 2 - 15;
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    const auto token = static_cast<std::int32_t>(random() % logits.size());
    const std::size_t top = random() % (kMaxTopLogprobs + 1);
    logprobs(logits, token, top, out);
    const auto expected = [&](std::int32_t id) {
      return static_cast<double>(logits[static_cast<std::size_t>(id)] - std::log(sum));
    };
    EXPECT_NEAR(out.sampled, expected(token), 1e-12);
    std::vector<std::int32_t> order(logits.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
      const float left = logits[static_cast<std::size_t>(a)];
      const float right = logits[static_cast<std::size_t>(b)];
      return left > right || (left == right && a < b);
    });
    ASSERT_EQ(out.top.size(), std::min(top, logits.size()));
    for (std::size_t i = 0; i < out.top.size(); ++i) {
      EXPECT_EQ(out.top[i].token, order[i]);
      EXPECT_NEAR(out.top[i].logprob, expected(order[i]), 1e-12);
    }
  }
}

TEST(Logprobs, PassOverWhatIsNotANumber) {
  Logprobs out;
  logprobs(std::vector<float>{std::nanf(""), 2, -kInf, 2}, 0, 4, out);
  EXPECT_EQ(out.sampled, -std::numeric_limits<double>::infinity());
  ASSERT_EQ(out.top.size(), 2U);
  EXPECT_EQ(out.top[0].token, 1);
  EXPECT_NEAR(out.top[0].logprob, std::log(0.5), 1e-15);
  logprobs(std::vector<float>{-kInf, -kInf}, 1, 4, out);
  EXPECT_EQ(out.sampled, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(out.top.empty());
}

}  // namespace
}  // namespace ft::logprobs_test
