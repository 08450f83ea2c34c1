#include "cli/lab/contention.h"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/commands/text_file.h"

namespace ft::cli {
namespace {

constexpr double kNotable = 0.05;
constexpr std::size_t kStatBytes = std::size_t{4} << 20;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

Contention::Times Contention::read_stat(const std::string& text, double own_s, double ticks) {
  // cpu user nice system idle iowait irq softirq steal ...: the later fields are part of user.
  constexpr int kFields = 8, kIdle = 3, kWait = 4;
  Times times;
  std::istringstream words(text);
  std::string word;
  if (!(words >> word) || word != "cpu" || ticks <= 0) return times;
  for (int field = 0; field < kFields; ++field) {
    double value = 0;
    if (!(words >> value)) return {};
    times.all_s += value / ticks;
    if (field != kIdle && field != kWait) times.busy_s += value / ticks;
  }
  times.own_s = own_s;
  return times;
}

double Contention::share(const Times& begin, const Times& end) {
  const double all = end.all_s - begin.all_s;
  if (all <= 0) return 0;
  const double others = end.busy_s - begin.busy_s - (end.own_s - begin.own_s);
  return std::clamp(others / all, 0.0, 1.0);
}

Contention::Times Contention::now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const Result<std::string> text = read_text_file("/proc/stat", kStatBytes);
  if (!text.ok()) return {};
  return read_stat(*text, seconds(usage.ru_utime) + seconds(usage.ru_stime),
                   static_cast<double>(sysconf(_SC_CLK_TCK)));
}

double Contention::others_share() const { return share(begin_, now()); }

std::string contention_note(double others_share) {
  if (others_share <= kNotable) return {};
  return fmt::format(
      "other programs used {:.0f} % of the processors: speeds are too low and ratios less certain",
      100 * others_share);
}

}  // namespace ft::cli
