#include "cli/terminal/reports.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/terminal/report_json.h"
#include "speculation/report_figures.h"

namespace ft::cli::reports_test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

SpeculationReport speculation() {
  SpeculationReport report;
  report.rounds = 4, report.drafted = 10, report.accepted = 6, report.emitted = 10;
  report.drafted_at = {4, 4, 2}, report.accepted_at = {4, 2, 0};
  return report;
}

TEST(Reports, TokensPerRoundCountsWhatRoundsEmitted) {
  EXPECT_DOUBLE_EQ(tokens_per_round(speculation()), 2.5);
  EXPECT_DOUBLE_EQ(tokens_per_round({}), 0);
}

TEST(Reports, AcceptanceEndsAtTheFirstDepthThatWasNeverDrafted) {
  EXPECT_EQ(acceptance_by_position(speculation()), (std::vector<double>{1.0, 0.5, 0.0}));
}

TEST(Reports, SummaryIsTheRatioOfTotalsWithTheSpreadOfPairs) {
  BenchReport report;
  BenchPrompt a, b;
  a.plain.add(100, 1000), a.speculative.add(100, 500), a.ratios = {1.9, 2.1}, a.speculation = speculation();
  b.plain.add(100, 1000), b.speculative.add(100, 1000), b.ratios = {1.0}, b.speculation = speculation();
  b.identical = false;
  report.prompts = {a, b};
  const BenchSummary summary = summarise(report);
  EXPECT_DOUBLE_EQ(summary.plain.tokens_per_second(), 100);
  EXPECT_NEAR(summary.speculative.tokens_per_second(), 200 / 1.5, 1e-9);
  EXPECT_NEAR(summary.ratio, 4.0 / 3.0, 1e-9);
  EXPECT_DOUBLE_EQ(summary.low, 1.0);
  EXPECT_DOUBLE_EQ(summary.high, 2.1);
  EXPECT_EQ(summary.speculation.rounds, 8);
  EXPECT_EQ(summary.speculation.accepted_at[1], 4);
  EXPECT_FALSE(summary.identical);
}

TEST(Reports, PerplexityLeavesTheFirstTokenOut) {
  ScoreReport report;
  report.positions.resize(3);
  report.log_likelihood = -2 * std::log(8.0);
  EXPECT_NEAR(report.perplexity(), 8, 1e-9);
  EXPECT_EQ(ScoreReport{}.perplexity(), 0);
}

TEST(ReportJson, RunHasTheKeysThatArePromised) {
  RunReport report;
  report.model = "m", report.backend = "b";
  report.answer.text = "a\xFF", report.answer.ids = {1, 2}, report.answer.finish = Finish::kStop;
  report.answer.report.speculation = speculation();
  const std::string text = run_json(report);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Json json = Json::parse(text);
  EXPECT_EQ(keys(json),
            (std::vector<std::string>{"backend", "finish_reason", "model", "reasoning", "speculation", "text",
                                      "timing", "token_ids", "tool_calls", "usage"}));
  EXPECT_EQ(json["text"], "a\xEF\xBF\xBD");
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_EQ(keys(json["usage"]), (std::vector<std::string>{"completion_tokens", "prompt_tokens"}));
  EXPECT_EQ(keys(json["timing"]),
            (std::vector<std::string>{"costs", "decode_ms", "load_ms", "prompt_ms", "tokens_per_second"}));
  const Json& spec = json["speculation"];
  EXPECT_EQ(spec["accepted_by_position"], Json({4, 2, 0}));
  EXPECT_EQ(spec["tokens_per_round"], 2.5);
  for (const char* key : {"engaged", "reason", "drafter", "rounds", "drafted", "accepted"}) {
    EXPECT_TRUE(spec.contains(key)) << key;
  }
}

TEST(ReportJson, RunTellsToolCallsAndLogprobs) {
  RunReport report;
  report.answer.tool_calls = {{"f", "{\"x\":1}"}};
  report.answer.finish = Finish::kStop;
  report.answer.ids = {7};
  report.answer.logprobs.resize(1);
  report.answer.logprobs[0].sampled = -std::numeric_limits<double>::infinity();
  report.answer.logprobs[0].top = {{3, -0.5}};
  report.wants_logprobs = true;
  const Json json = Json::parse(run_json(report));
  EXPECT_EQ(json["finish_reason"], "tool_calls");
  EXPECT_EQ(json["tool_calls"][0]["name"], "f");
  EXPECT_TRUE(json["logprobs"][0]["logprob"].is_null()) << "JSON has no infinity";
  EXPECT_EQ(json["logprobs"][0]["top"][0]["id"], 3);
}

TEST(ReportJson, BenchHasTheKeysThatArePromised) {
  BenchReport report;
  BenchPrompt prompt;
  prompt.name = "p", prompt.ratios = {2.0}, prompt.speculation = speculation();
  prompt.plain.add(10, 100), prompt.speculative.add(10, 50);
  report.prompts = {prompt};
  const Json json = Json::parse(bench_json(report));
  ASSERT_EQ(json["prompts"].size(), 1U);
  EXPECT_EQ(keys(json["summary"]),
            (std::vector<std::string>{"accepted_by_position", "identical", "plain_tokens_per_second", "ratio",
                                      "speculative_tokens_per_second", "spread", "tokens_per_round"}));
  EXPECT_EQ(json["summary"]["ratio"], 2.0);
  EXPECT_EQ(json["summary"]["spread"], Json({2.0, 2.0}));
  EXPECT_EQ(json["summary"]["identical"], true);
}

TEST(ReportJson, ScoreHasOneEntryAPosition) {
  ScoreReport report;
  report.positions.push_back({5, 9, 1.5F, 2.5, {{9, 1.5F}, {4, 1.0F}}, 0});
  const Json json = Json::parse(score_json(report));
  EXPECT_EQ(keys(json["positions"][0]),
            (std::vector<std::string>{"argmax", "argmax_logit", "id", "logsumexp", "top"}));
  EXPECT_EQ(json["positions"][0]["top"], Json::parse("[[9,1.5],[4,1.0]]"));
}

TEST(ReportJson, AnErrorIsAnObjectWithCodeAndMessage) {
  const Json json = Json::parse(error_json({Code::kNotFound, "no\nmodel"}));
  EXPECT_EQ(json["error"]["code"], "not_found");
  EXPECT_EQ(json["error"]["message"], "no\nmodel");
}

}  // namespace
}  // namespace ft::cli::reports_test
