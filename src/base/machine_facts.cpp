#include "base/machine_facts.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace ft {

std::int64_t last_cache_of(const std::string& cpus) {
  namespace fs = std::filesystem;
  const auto word_of = [](const fs::path& file) {
    std::string word;
    std::ifstream(file) >> word;
    return word;
  };
  std::error_code error;
  int last = 0;
  std::map<std::string, std::int64_t> bytes;  // of the caches of level `last`, by the cores that share one
  for (const fs::directory_entry& cpu : fs::directory_iterator(cpus, error)) {
    const std::string name = cpu.path().filename().string();
    if (name.compare(0, 3, "cpu") != 0 || name.size() == 3 || std::isdigit(name[3]) == 0) continue;
    std::error_code none;  // a core that is offline has no caches
    for (const fs::directory_entry& cache : fs::directory_iterator(cpu.path() / "cache", none)) {
      const int level = std::atoi(word_of(cache.path() / "level").c_str());
      const std::int64_t kilobytes = std::atoll(word_of(cache.path() / "size").c_str());
      if (level < last || kilobytes <= 0) continue;
      if (level > last) bytes.clear();
      last = level;
      bytes[word_of(cache.path() / "shared_cpu_list")] = kilobytes * 1024;
    }
  }
  std::int64_t all = 0;
  for (const auto& [cores, each] : bytes) all += each;
  return all;
}

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
