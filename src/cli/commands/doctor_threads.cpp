#include "cli/commands/doctor_threads.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

#include "base/text_file.h"
#include "cli/commands/calibration_place.h"

namespace ft::cli {
namespace {

std::string counted(std::size_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::size_t physical_cores(std::span<const Core> cores) {
  std::set<std::pair<int, int>> seen;
  std::size_t unknown = 0;
  for (const Core& core : cores) core.id < 0 ? ++unknown : seen.emplace(core.package, core.id).second;
  return unknown + seen.size();
}

}  // namespace

Finding threads_finding(int asked, int usual, std::span<const Core> allowed, std::span<const Core> workers) {
  std::string text = asked > 0 ? fmt::format("{} as requested; {} available",
                                             counted(static_cast<std::size_t>(asked), "thread"),
                                             counted(workers.size(), "core"))
                               : fmt::format("{}, {}", counted(static_cast<std::size_t>(usual), "thread"),
                                             static_cast<std::size_t>(usual) < workers.size()
                                                 ? "one per core that the control group grants"
                                                 : "one for each core");
  const std::size_t cores = physical_cores(allowed);
  if (allowed.size() > cores)
    text += fmt::format("; second hardware threads of cores are not used ({} in all)", allowed.size());
  if (cores > workers.size())
    text += fmt::format("; {} left out", counted(cores - workers.size(), "slow core"));
  const int nodes = memory_nodes({workers.begin(), workers.end()});
  if (nodes > 1) text += fmt::format("; {} memory nodes, with weights near their cores", nodes);
  return {Finding::Kind::kGood, std::move(text), ""};
}

void check_workers(const Model& model, const Backend& backend, std::int64_t now_s,
                   std::vector<Finding>& findings) {
  if (backend.worker_choices().empty()) return;
  for (const bool mapped : {false, true}) {
    const CalibrationCacheOptions place = calibration_place("auto", model, backend, mapped);
    if (place.path.empty()) return;
    const Result<std::string> text = read_text_file(place.path, CalibrationCache::kMaxBytes);
    if (!text.ok()) continue;
    const Result<RememberedCosts> costs = read_calibration(*text, place.key, now_s);
    if (!costs.ok()) continue;
    const std::string chosen = worker_text(costs->workers);
    if (chosen.empty()) continue;
    findings.push_back({Finding::Kind::kGood,
                        fmt::format("small steps of this model{} use {}, chosen by calibration",
                                    mapped ? " with --packed-weights" : "", chosen),
                        ""});
    return;
  }
  findings.push_back({Finding::Kind::kGood,
                      "the first run of this model measures the best number of threads for small steps", ""});
}

}  // namespace ft::cli
