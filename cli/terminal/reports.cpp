#include "cli/terminal/reports.h"

#include <algorithm>
#include <cmath>

namespace ft::cli {

BenchSummary summarise(const BenchReport& report) {
  BenchSummary summary;
  std::vector<double> ratios;
  for (const BenchPrompt& prompt : report.prompts) {
    summary.plain.add(prompt.plain.tokens, prompt.plain.decode_ms);
    summary.speculative.add(prompt.speculative.tokens, prompt.speculative.decode_ms);
    ratios.insert(ratios.end(), prompt.ratios.begin(), prompt.ratios.end());
    add(summary.speculation, prompt.speculation);
    summary.identical = summary.identical && prompt.identical;
  }
  const double plain = summary.plain.tokens_per_second();
  summary.ratio = plain > 0 ? summary.speculative.tokens_per_second() / plain : 0;
  if (!ratios.empty()) {
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    summary.low = *low, summary.high = *high;
  }
  return summary;
}

double ScoreReport::perplexity() const {
  const auto predicted = static_cast<double>(positions.size()) - 1;
  return predicted > 0 ? std::exp(-log_likelihood / predicted) : 0;
}

double tokens_per_round(const SpeculationReport& report) {
  return report.rounds > 0 ? static_cast<double>(report.emitted) / static_cast<double>(report.rounds) : 0;
}

std::vector<double> acceptance_by_position(const SpeculationReport& report) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < report.drafted_at.size() && report.drafted_at[i] > 0; ++i) {
    shares.push_back(static_cast<double>(report.accepted_at[i]) / static_cast<double>(report.drafted_at[i]));
  }
  return shares;
}

void add(SpeculationReport& sum, const SpeculationReport& more) {
  sum.rounds += more.rounds, sum.drafted += more.drafted;
  sum.accepted += more.accepted, sum.emitted += more.emitted;
  for (std::size_t i = 0; i < sum.by_drafter.size(); ++i) sum.by_drafter[i].add(more.by_drafter[i]);
  for (std::size_t i = 0; i < sum.drafted_at.size(); ++i) {
    sum.drafted_at[i] += more.drafted_at[i];
    sum.accepted_at[i] += more.accepted_at[i];
  }
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace ft::cli
