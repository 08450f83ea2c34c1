#include "lab/machine.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <utility>

#include "base/cpu_quota.h"
#include "base/machine_facts.h"
#include "base/text_file.h"
#include "lab/bandwidth.h"

namespace ft {
namespace {

constexpr std::size_t kSystemFileBytes = std::size_t{4} << 20;

std::string system_file(const std::string& path) {
  Result<std::string> text = read_text_file(path, kSystemFileBytes);
  return text.ok() ? std::move(*text) : std::string();
}

/// The folder of this process's control group (version 2), or of the root group.
std::string control_group() {
  const std::string groups = system_file("/proc/self/cgroup");
  const std::size_t at = groups.find("0::");
  std::string path = "/sys/fs/cgroup";
  if (at == std::string::npos) return path;
  std::string own = groups.substr(at + 3);
  own = own.substr(0, own.find('\n'));
  if (own != "/" && !system_file(path + own + "/cgroup.controllers").empty()) path += own;
  return path;
}

void read_limits(Machine& machine) {
  const std::string group = control_group();
  const std::string memory = system_file(group + "/memory.max");
  if (!memory.empty() && memory.compare(0, 3, "max") != 0) {
    machine.memory_limit = std::strtoll(memory.c_str(), nullptr, 10);
    machine.memory_used_of_limit = std::strtoll(system_file(group + "/memory.current").c_str(), nullptr, 10);
    // The page cache counts as used but can be reclaimed.
    const std::string stat = system_file(group + "/memory.stat");
    const std::size_t file = stat.find("\nfile ");
    if (file != std::string::npos) {
      machine.memory_used_of_limit -= std::strtoll(stat.c_str() + file + 6, nullptr, 10);
    }
  }
  machine.cpu_limit = cpu_quota();
}

/// The word in square brackets.
std::string chosen(const std::string& text) {
  const std::size_t begin = text.find('['), end = text.find(']');
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : text.substr(begin + 1, end - begin - 1);
}

}  // namespace

std::int64_t Machine::free_bytes() const {
  if (memory_limit <= 0) return memory_available;
  return std::max<std::int64_t>(0, std::min(memory_available, memory_limit - memory_used_of_limit));
}

Machine read_machine() {
  Machine machine;
  utsname name{};
  if (::uname(&name) == 0) machine.system = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  ProcessorFacts processor = processor_facts();
  machine.processor = std::move(processor.name);
  machine.features = std::move(processor.features);
  machine.logical_cores = processor.logical_cores;
  const MemoryFacts memory = memory_facts();
  machine.memory_total = memory.total;
  machine.memory_available = memory.available;
  read_limits(machine);
  machine.huge_pages = chosen(system_file("/sys/kernel/mm/transparent_hugepage/enabled"));
  machine.power = power_facts();
  return machine;
}

double probe_read_bandwidth(int threads) {
  constexpr int kProbes = 5;
  BandwidthProbe probe(std::max(1, threads));
  double best = 0;
  for (int i = 0; i < kProbes; ++i) best = std::max(best, probe.gb_per_s());
  return best;
}

std::vector<Finding> check_machine(const Machine& machine, int threads) {
  using Kind = Finding::Kind;
  std::vector<Finding> findings;
  const auto has = [&](const char* feature) {
    return std::find(machine.features.begin(), machine.features.end(), feature) != machine.features.end();
  };
  const bool simd = has("avx2") || has("asimd");
  if (!simd) {
    findings.push_back({Kind::kWarning,
                        "the processor has neither AVX2 nor NEON; the portable kernels are slow",
                        "in a virtual machine, pass through the host's processor (for example -cpu host)"});
  }
  if (machine.cpu_limit > 0 && machine.cpu_limit < machine.logical_cores - 0.01) {
    const int whole = std::max(1, static_cast<int>(machine.cpu_limit));
    findings.push_back(
        {threads > whole ? Kind::kWarning : Kind::kGood,
         fmt::format("the control group grants {:.3g} of {} cores", machine.cpu_limit, machine.logical_cores),
         threads > whole ? fmt::format("use --threads {}, or raise the limit", whole) : ""});
  }
  if (threads > machine.logical_cores) {
    findings.push_back(
        {Kind::kWarning,
         fmt::format("{} threads on {} cores wait for each other", threads, machine.logical_cores),
         fmt::format("use --threads {}", machine.logical_cores)});
  }
  if (machine.free_bytes() > 0 && machine.free_bytes() < (std::int64_t{1} << 30)) {
    findings.push_back({Kind::kWarning, "less than 1 GB of memory is free", "close other programs"});
  }
  if (machine.huge_pages == "never") {
    findings.push_back({Kind::kWarning, "transparent huge pages are off, so reading weights is slower",
                        "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  }
  if (machine.power.governor == "powersave") {
    findings.push_back({Kind::kWarning, "the frequency governor is powersave",
                        "as root: cpupower frequency-set -g performance"});
  }
  return findings;
}

std::vector<Finding> check_throttling(const PowerFacts& before, const PowerFacts& after) {
  if (before.throttled_times < 0 || after.throttled_times <= before.throttled_times) return {};
  return {{Finding::Kind::kWarning,
           fmt::format("the processor throttled {} times during these checks, because of heat or power",
                       after.throttled_times - before.throttled_times),
           "improve the cooling, or use fewer --threads"}};
}

}  // namespace ft
