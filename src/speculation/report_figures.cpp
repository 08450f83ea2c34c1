#include "speculation/report_figures.h"

#include <cstdint>

namespace ft {

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

}  // namespace ft
