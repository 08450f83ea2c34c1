#include "base/machine_facts.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace ft {
namespace {

constexpr std::streamsize kSystemFileBytes = std::streamsize{4} << 20;

std::string system_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  constexpr std::size_t kPiece = 65536;
  while (file && static_cast<std::streamsize>(text.size()) < kSystemFileBytes) {
    const std::size_t old = text.size();
    text.resize(old + kPiece);
    file.read(text.data() + old, kPiece);
    text.resize(old + static_cast<std::size_t>(file.gcount()));
  }
  return text;
}

/// The value after "key:" in the first line that starts with the key.
std::string value_of(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::int64_t kilobytes(const std::string& value) { return std::strtoll(value.c_str(), nullptr, 10) * 1024; }

}  // namespace

ProcessorFacts processor_facts() {
  ProcessorFacts facts;
  const std::string cpu = system_file("/proc/cpuinfo");
  facts.last_cache = last_cache_of("/sys/devices/system/cpu");
  facts.name = value_of(cpu, "model name");
  if (facts.name.empty()) facts.name = value_of(cpu, "CPU part");
  std::istringstream flags(value_of(cpu, "flags") + " " + value_of(cpu, "Features"));
  static constexpr const char* kWanted[] = {"sse4_2",      "avx",      "f16c",     "fma",      "avx2",
                                            "avx_vnni",    "avx512f",  "avx512bw", "avx512vl", "avx512_vnni",
                                            "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16", "asimd",
                                            "asimddp",     "bf16",     "i8mm",     "sve",      "sve2"};
  for (std::string flag; flags >> flag;) {
    if (std::find(std::begin(kWanted), std::end(kWanted), flag) != std::end(kWanted))
      facts.features.push_back(flag);
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  facts.logical_cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0
                            ? CPU_COUNT(&allowed)
                            : static_cast<int>(std::thread::hardware_concurrency());
  return facts;
}

MemoryFacts memory_facts() {
  const std::string memory = system_file("/proc/meminfo");
  MemoryFacts facts{kilobytes(value_of(memory, "MemTotal")), kilobytes(value_of(memory, "MemAvailable"))};
  const std::int64_t physical = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  if (facts.total <= 0) facts.total = physical;
  if (facts.available <= 0) facts.available = facts.total;
  return facts;
}

ProcessorTimes processor_times() {
  return times_of_proc_stat(system_file("/proc/stat"), static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

std::int64_t resident_bytes() { return kilobytes(value_of(system_file("/proc/self/status"), "VmRSS")); }

}  // namespace ft
