#include "cli/terminal/reports.h"

#include <algorithm>
#include <cmath>

#include "speculation/report_figures.h"

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

}  // namespace ft::cli
