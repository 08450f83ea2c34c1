#include "text/reasoning_effort.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace ft {

namespace {

constexpr std::string_view kVariable = "reasoning_effort";
constexpr int kHigh = 3;  // index in kEfforts

bool quotes(std::string_view source, std::string_view word) {
  for (std::size_t at = source.find(word); at != std::string_view::npos; at = source.find(word, at + 1)) {
    if (at == 0 || at + word.size() >= source.size()) continue;
    const char before = source[at - 1], after = source[at + word.size()];
    if (before == after && (before == '\'' || before == '"')) return true;
  }
  return false;
}

}  // namespace

std::string effort_word(std::string_view template_source, std::string_view effort) {
  if (template_source.find(kVariable) == std::string_view::npos) return {};
  const auto found = std::ranges::find(kEfforts, effort);
  if (found == kEfforts.end()) return {};
  std::vector<int> known;
  for (int i = 0; i < static_cast<int>(kEfforts.size()); ++i) {
    if (quotes(template_source, kEfforts[static_cast<std::size_t>(i)])) known.push_back(i);
  }
  if (known.size() < 2) known = {1, 2, 3};
  const int wanted = static_cast<int>(found - kEfforts.begin());
  int best = known.front();
  for (const int word : known) {
    const int nearer = std::abs(best - wanted) - std::abs(word - wanted);
    if (nearer > 0 || (nearer == 0 && wanted >= kHigh)) best = word;
  }
  return std::string(kEfforts[static_cast<std::size_t>(best)]);
}

}  // namespace ft
