#include "sched/machine_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/machine_facts.h"

namespace ft {
namespace {

/// The number in a file, or the number after `key` at the start of a line.
std::optional<std::int64_t> number_in(const std::filesystem::path& file, const std::string& key = {}) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string word;
    std::int64_t number = 0;
    if (!key.empty() && (!(words >> word) || word != key)) continue;
    if (words >> number) return number;
    if (key.empty()) break;  // "max"
  }
  return {};
}

/// Bytes left under one group's limit; its file cache counts as free, because the kernel would release it.
std::optional<std::int64_t> left_in_group(const std::filesystem::path& group) {
  const std::optional<std::int64_t> limit = number_in(group / "memory.max");
  if (!limit) return {};
  const std::int64_t used = number_in(group / "memory.current").value_or(0);
  const std::int64_t files = number_in(group / "memory.stat", "inactive_file").value_or(0) +
                             number_in(group / "memory.stat", "active_file").value_or(0);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, used - files));
}

}  // namespace

std::int64_t available_memory(const std::string& root) {
  const std::filesystem::path base(root);
  std::int64_t least = 0;
  const auto limit = [&](std::int64_t bytes) { least = least == 0 ? bytes : std::min(least, bytes); };
  if (const auto kilobytes = number_in(base / "proc/meminfo", "MemAvailable:")) {
    limit(*kilobytes * 1024);
  } else if (root == "/") {
    limit(memory_facts().available);
  }
  std::ifstream in(base / "proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("0::/", 0) != 0) continue;
    const std::filesystem::path top = base / "sys/fs/cgroup";
    for (std::filesystem::path group = line.substr(4);; group = group.parent_path()) {
      if (const auto left = left_in_group(top / group)) limit(*left);
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace ft
