#include "convert/budget.h"

namespace ft::convert {
namespace {

double harm_of(const BitCandidate& candidate, std::size_t width) {
  const double error = candidate.widths[width].error;
  return candidate.harm * error * error;
}

struct Step {
  std::size_t candidate = 0, width = 0;
  double gain = 0;  // of harm, per byte
};

/// The step up that lowers the harm most for its bytes, among those that fit.
Step best_step(std::span<const BitCandidate> candidates, const std::vector<std::size_t>& chosen,
               std::uint64_t left_bytes) {
  Step best;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::vector<Width>& widths = candidates[i].widths;
    for (std::size_t w = chosen[i] + 1; w < widths.size(); ++w) {
      const std::uint64_t more = widths[w].bytes - widths[chosen[i]].bytes;
      if (more > left_bytes) break;
      const double fall = harm_of(candidates[i], chosen[i]) - harm_of(candidates[i], w);
      const double gain = more > 0 ? fall / static_cast<double>(more) : fall;
      if (gain > best.gain) best = {i, w, gain};
    }
  }
  return best;
}

}  // namespace

std::vector<std::size_t> spend(std::span<const BitCandidate> candidates, std::uint64_t budget_bytes) {
  std::vector<std::size_t> chosen(candidates.size(), 0);
  std::uint64_t used = 0;
  for (const BitCandidate& candidate : candidates) used += candidate.widths.front().bytes;
  while (used < budget_bytes) {
    const Step step = best_step(candidates, chosen, budget_bytes - used);
    if (step.gain <= 0) break;
    const std::vector<Width>& widths = candidates[step.candidate].widths;
    used += widths[step.width].bytes - widths[chosen[step.candidate]].bytes;
    chosen[step.candidate] = step.width;
  }
  return chosen;
}

}  // namespace ft::convert
