#include "base/power.h"

#include <fmt/format.h>

namespace ft {

std::string clock_text(const PowerFacts& facts) {
  constexpr double kGiga = 1000;
  std::string text;
  if (facts.mhz > 0) text = fmt::format("{:.1f}", facts.mhz / kGiga);
  if (facts.mhz > 0 && facts.highest_mhz > 0) text += fmt::format(" of {:.1f}", facts.highest_mhz / kGiga);
  if (!text.empty()) text += " GHz";
  if (facts.throttled_times >= 0) {
    text += fmt::format("{}slowed down {} times since the system started", text.empty() ? "" : ", ",
                        facts.throttled_times);
  }
  return text.empty() ? "not readable" : text;
}

}  // namespace ft
