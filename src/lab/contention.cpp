#include "lab/contention.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>

#include "base/machine_facts.h"

namespace ft {
namespace {

constexpr double kNotable = 0.05;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

double Contention::share(const Times& begin, const Times& end) {
  const double all = end.all_s - begin.all_s;
  if (all <= 0) return 0;
  const double others = end.busy_s - begin.busy_s - (end.own_s - begin.own_s);
  return std::clamp(others / all, 0.0, 1.0);
}

Contention::Times Contention::now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const ProcessorTimes all = processor_times();
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), all.busy_s, all.all_s};
}

double Contention::others_share() const { return share(begin_, now()); }

std::string contention_note(double others_share) {
  if (others_share <= kNotable) return {};
  return fmt::format(
      "other programs used {:.0f} % of the processors: speeds are too low, and ratios are less certain",
      100 * others_share);
}

}  // namespace ft
