#include "base/machine_facts.h"

#include <sstream>

namespace ft {

ProcessorTimes times_of_proc_stat(const std::string& text, double ticks) {
  // cpu user nice system idle iowait irq softirq steal ...: the later fields are part of user.
  constexpr int kFields = 8, kIdle = 3, kWait = 4;
  ProcessorTimes times;
  std::istringstream words(text);
  std::string word;
  if (!(words >> word) || word != "cpu" || ticks <= 0) return times;
  for (int field = 0; field < kFields; ++field) {
    double value = 0;
    if (!(words >> value)) return {};
    times.all_s += value / ticks;
    if (field != kIdle && field != kWait) times.busy_s += value / ticks;
  }
  return times;
}

}  // namespace ft
