#include "base/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ft {
namespace {

int read_number(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number = otherwise;
  return file >> number ? number : otherwise;
}

std::vector<int> read_list(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return read_cpu_list(text);
}

/// By number of the hardware thread.
std::map<int, int> read_nodes(const std::string& devices) {
  std::map<int, int> nodes;
  const std::string folder = devices + "/system/node/";
  for (const int node : read_list(folder + "online"))
    for (const int cpu : read_list(folder + "node" + std::to_string(node) + "/cpulist")) nodes[cpu] = node;
  return nodes;
}

}  // namespace

std::vector<int> read_cpu_list(const std::string& text) {
  constexpr int kMax = 1 << 16;
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto [next, failure] = std::from_chars(at, end, first);
    if (failure != std::errc() || first < 0 || first >= kMax) break;
    int last = first;
    if (next < end && *next == '-') {
      std::tie(next, failure) = [&] {
        const auto read = std::from_chars(next + 1, end, last);
        return std::pair(read.ptr, read.ec);
      }();
      if (failure != std::errc() || last < first || last >= kMax) break;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (next == end || *next != ',') break;
    at = next + 1;
  }
  return cpus;
}

std::vector<Core> read_cores(const std::string& devices, const std::vector<int>& allowed) {
  std::map<int, int> nodes = read_nodes(devices);
  // Intel lists the slow cores of a hybrid processor; other systems report the capacity of each core.
  constexpr int kFast = 1024, kSlow = 512;
  std::map<int, int> capacities;
  for (const int cpu : read_list(devices + "/cpu_core/cpus")) capacities[cpu] = kFast;
  for (const int cpu : read_list(devices + "/cpu_atom/cpus")) capacities[cpu] = kSlow;
  std::vector<Core> cores;
  for (const int cpu : allowed) {
    const std::string folder = devices + "/system/cpu/cpu" + std::to_string(cpu) + "/";
    Core core;
    core.cpu = cpu;
    core.id = read_number(folder + "topology/core_id", -1);
    core.package = read_number(folder + "topology/physical_package_id", 0);
    core.capacity = read_number(folder + "cpu_capacity", capacities[cpu]);
    core.node = nodes[cpu];
    cores.push_back(core);
  }
  return cores;
}

std::vector<Core> cores_for_workers(std::vector<Core> cores) {
  constexpr double kAsFast = 0.9;  // cores of one kind may differ a little
  int fastest = 0;
  for (const Core& core : cores) fastest = std::max(fastest, core.capacity);
  std::erase_if(cores, [fastest](const Core& core) { return core.capacity < kAsFast * fastest; });
  std::set<std::pair<int, int>> seen;
  std::erase_if(cores, [&seen](const Core& core) {
    return core.id >= 0 && !seen.emplace(core.package, core.id).second;
  });
  std::ranges::stable_sort(cores, {}, [](const Core& core) { return std::pair(core.node, core.cpu); });
  return cores;
}

int memory_nodes(const std::vector<Core>& cores) {
  std::set<int> nodes;
  for (const Core& core : cores) nodes.insert(core.node);
  return static_cast<int>(nodes.size());
}

}  // namespace ft
