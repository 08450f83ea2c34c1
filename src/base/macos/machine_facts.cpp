// Compiled for macOS on Linux (tools/check --only mac); it has not run on a Mac yet.
#include "base/machine_facts.h"

#include <mach/mach.h>
#include <sys/sysctl.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ft {
namespace {

std::int64_t number(const char* name) {
  std::int64_t value = 0;  // a smaller answer fills the low bytes
  std::size_t size = sizeof value;
  return ::sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

std::string text(const char* name) {
  char value[256] = {};
  std::size_t size = sizeof value - 1;
  return ::sysctlbyname(name, value, &size, nullptr, 0) == 0 ? value : "";
}

}  // namespace

ProcessorFacts processor_facts() {
  ProcessorFacts facts;
  facts.name = text("machdep.cpu.brand_string");
  facts.last_cache = number("hw.l3cachesize");
  constexpr std::pair<const char*, const char*> kFeatures[] = {{"hw.optional.AdvSIMD", "asimd"},
                                                               {"hw.optional.arm.FEAT_DotProd", "asimddp"},
                                                               {"hw.optional.arm.FEAT_BF16", "bf16"},
                                                               {"hw.optional.arm.FEAT_I8MM", "i8mm"}};
  for (const auto& [name, word] : kFeatures) {
    if (number(name) != 0) facts.features.emplace_back(word);
  }
  facts.logical_cores = static_cast<int>(std::thread::hardware_concurrency());
  return facts;
}

MemoryFacts memory_facts() {
  MemoryFacts facts{number("hw.memsize"), 0};
  vm_statistics64_data_t pages{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  auto* const words = reinterpret_cast<host_info64_t>(&pages);
  if (::host_statistics64(::mach_host_self(), HOST_VM_INFO64, words, &count) == KERN_SUCCESS) {
    const auto reclaimable =
        std::int64_t{pages.free_count} + pages.external_page_count + pages.purgeable_count;
    facts.available = reclaimable * ::sysconf(_SC_PAGESIZE);
  }
  if (facts.available <= 0 || facts.available > facts.total) facts.available = facts.total;
  return facts;
}

ProcessorTimes processor_times() {
  host_cpu_load_info_data_t load{};
  mach_msg_type_number_t count = HOST_CPU_LOAD_INFO_COUNT;
  auto* const words = reinterpret_cast<host_info_t>(&load);
  if (::host_statistics(::mach_host_self(), HOST_CPU_LOAD_INFO, words, &count) != KERN_SUCCESS) return {};
  const auto second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  ProcessorTimes times;
  for (int state = 0; state < CPU_STATE_MAX; ++state) {
    times.all_s += static_cast<double>(load.cpu_ticks[state]) / second;
    if (state != CPU_STATE_IDLE) times.busy_s += static_cast<double>(load.cpu_ticks[state]) / second;
  }
  return times;
}

std::int64_t resident_bytes() {
  mach_task_basic_info_data_t info{};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  auto* const words = reinterpret_cast<task_info_t>(&info);
  if (::task_info(::mach_task_self(), MACH_TASK_BASIC_INFO, words, &count) != KERN_SUCCESS) return 0;
  return static_cast<std::int64_t>(info.resident_size);
}

}  // namespace ft
