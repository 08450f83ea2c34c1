// Compares with transformers' logits processors: tests/golden/sampling/processors.json, whose maker
// (tools/make_sampling_golden.py) says where the conventions differ.
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/history.h"

namespace ft::processors_test {
namespace {

TEST(Processors, LeaveTheTokensAndProbabilitiesOfTransformers) {
  std::ifstream file("tests/golden/sampling/processors.json");
  ASSERT_TRUE(file.good()) << "run from the repository root";
  const auto golden = nlohmann::json::parse(file);
  ASSERT_GE(golden["cases"].size(), 14U);
  SampleScratch scratch;
  Distribution out;
  for (const auto& one : golden["cases"]) {
    const auto& setting = one["setting"];
    SamplingParams sampler;
    sampler.temperature = setting.value("temperature", 1.0F);
    sampler.repetition = setting.value("repetition", 1.0F);
    sampler.top_k = setting.value("top_k", 0);
    sampler.top_p = setting.value("top_p", 1.0F);
    sampler.min_p = setting.value("min_p", 0.0F);
    const auto logits = one["logits"].get<std::vector<float>>();
    History history;
    history.add_prompt(one["seen"].get<std::vector<std::int32_t>>());
    SampleRow row;
    row.sampler = &sampler;
    row.history = history.counts();
    distribution(logits, {}, row, scratch, out);
    ASSERT_EQ(out.entries.size(), one["left"].size()) << setting;
    for (std::size_t i = 0; i < out.entries.size(); ++i) {
      EXPECT_EQ(out.entries[i].first, one["left"][i][0].get<int>()) << setting;
      const double expected = one["left"][i][1].get<double>();
      EXPECT_NEAR(static_cast<double>(out.entries[i].second), expected, 2e-6 * expected + 1e-9) << setting;
    }
  }
}

}  // namespace
}  // namespace ft::processors_test
