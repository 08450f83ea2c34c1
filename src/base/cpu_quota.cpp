#include "base/cpu_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

namespace ft {
namespace {

using Path = std::filesystem::path;

/// "max 100000" and "200000 100000" of version 2; version 1 has a file for each, and -1 for no limit.
std::optional<double> cores_of(std::istream& quota, std::istream& period) {
  double granted = 0, of = 0;
  if (!(quota >> granted) || !(period >> of) || granted <= 0 || of <= 0) return {};
  return granted / of;
}

std::optional<double> granted_to(const Path& group) {
  std::ifstream both(group / "cpu.max");
  if (both) return cores_of(both, both);
  std::ifstream quota(group / "cpu.cfs_quota_us"), period(group / "cpu.cfs_period_us");
  return cores_of(quota, period);
}

/// Where the groups of a line such as "0::/a" or "3:cpu,cpuacct:/a" are found; empty if they grant no time.
Path hierarchy(const std::string& controllers) {
  if (controllers.empty()) return "";
  const std::string listed = "," + controllers + ",";
  return listed.find(",cpu,") != std::string::npos ? "cpu" : Path("none");
}

}  // namespace

double cpu_quota(const std::string& root) {
  const Path base(root), top = base / "sys/fs/cgroup";
  double least = 0;
  std::ifstream in(base / "proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const Path at = top / hierarchy(line.substr(first + 1, second - first - 1));
    // A container may see its own group as the root, under the name that the host has for it.
    for (Path group = Path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      const std::optional<double> granted = granted_to(at / group);
      if (granted && (least == 0 || *granted < least)) least = *granted;
      if (group.empty()) break;
    }
  }
  return least;
}

int cores_within(double quota, int cores) {
  constexpr double kRounding = 0.01;  // a quota of 3.999 is meant to be 4
  if (quota <= 0 || quota + kRounding >= cores) return cores;
  return std::max(1, static_cast<int>(quota + kRounding));
}

}  // namespace ft
