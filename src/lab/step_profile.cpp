#include "lab/step_profile.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_layout.h"
#include "lab/instruction_cost.h"
#include "program/program.h"

namespace ft {
namespace {

constexpr double kShownWaitNs = 500;  // shorter waits are left out of a trace

double span_ns(std::int64_t begin, std::int64_t end) { return static_cast<double>(end - begin); }

}  // namespace

int StepProfile::compiled(const Program& program, std::vector<ProfiledOperation> operations, int workers) {
  Target target;
  target.workers = workers;
  for (const ProfiledOperation& operation : operations) {
    if (operation.instruction < 0) {
      target.labels.emplace_back(operation.name), target.bytes.push_back(0);
      target.of_logit_rows.push_back(false);
      continue;
    }
    const Instruction& instruction = program.instructions()[static_cast<std::size_t>(operation.instruction)];
    target.labels.push_back(instruction_label(instruction));
    target.bytes.push_back(static_cast<double>(instruction_bytes(instruction)));
    target.of_logit_rows.push_back(std::holds_alternative<Logits>(instruction));
  }
  targets_.push_back(std::move(target));
  return static_cast<int>(targets_.size()) - 1;
}

void StepProfile::stepped(const ProfiledStep& step) {
  const Target& target = targets_[static_cast<std::size_t>(step.executable)];
  const std::size_t operations = target.labels.size();
  const std::size_t workers = step.times.size() / operations;
  Sums& sums = sums_[{step.executable, step.rows}];
  sums.ns.resize(operations), sums.barrier_ns.resize(operations), sums.bytes.resize(operations);
  sums.steps += 1;
  sums.step_ns += span_ns(step.begin_ns, step.end_ns);
  for (std::size_t i = 0; i < operations; ++i) {
    for (std::size_t worker = 0; worker < workers; ++worker) {
      const OperationTime& time = step.times[worker * operations + i];
      sums.ns[i] += span_ns(time.begin_ns, time.left_ns) / static_cast<double>(workers);
      sums.barrier_ns[i] += (span_ns(time.end_ns, time.left_ns) + static_cast<double>(time.waited_ns)) /
                            static_cast<double>(workers);
      trace_.push_back({step.executable, step.rows, static_cast<int>(i), static_cast<int>(worker), time});
    }
    if (step.logit_rows > 0 || !target.of_logit_rows[i]) sums.bytes[i] += target.bytes[i];
  }
  while (trace_.size() > kTraceEvents) trace_.pop_front();
}

std::vector<ProfileTable> StepProfile::tables() const {
  std::vector<ProfileTable> tables;
  for (const auto& [key, sums] : sums_) {
    const Target& target = targets_[static_cast<std::size_t>(key.first)];
    ProfileTable table{key.first, key.second, sums.steps, sums.step_ns * 1e-6, {}};
    std::map<std::string, ProfileLine> lines;
    for (std::size_t i = 0; i < target.labels.size(); ++i) {
      ProfileLine& line = lines[target.labels[i]];
      line.label = target.labels[i];
      line.calls += sums.steps;
      line.ms += sums.ns[i] * 1e-6;
      line.barrier_ms += sums.barrier_ns[i] * 1e-6;
      line.bytes += sums.bytes[i];
    }
    for (auto& [label, line] : lines) table.lines.push_back(std::move(line));
    std::sort(table.lines.begin(), table.lines.end(),
              [](const ProfileLine& a, const ProfileLine& b) { return a.ms > b.ms; });
    tables.push_back(std::move(table));
  }
  return tables;
}

std::string StepProfile::trace_json() const {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  const auto add = [&events](const std::string& name, const Event& event, std::int64_t begin,
                             std::int64_t end) {
    events.push_back({{"name", name},
                      {"ph", "X"},
                      {"ts", static_cast<double>(begin) * 1e-3},
                      {"dur", span_ns(begin, end) * 1e-3},
                      {"pid", event.executable},
                      {"tid", event.worker},
                      {"args", {{"rows", event.rows}}}});
  };
  for (const Event& event : trace_) {
    const Target& target = targets_[static_cast<std::size_t>(event.executable)];
    add(target.labels[static_cast<std::size_t>(event.operation)], event, event.time.begin_ns,
        event.time.end_ns);
    if (span_ns(event.time.end_ns, event.time.left_ns) < kShownWaitNs) continue;
    add("barrier", event, event.time.end_ns, event.time.left_ns);
  }
  return write_json(nlohmann::ordered_json{{"traceEvents", std::move(events)}}) + "\n";
}

std::string profile_text(const ProfileTable& table) {
  const double steps = static_cast<double>(std::max<std::int64_t>(1, table.steps));
  std::vector<std::vector<std::string>> rows = {
      {"instruction", "calls/step", "ms/step", "share", "MB/step", "GB/s", "barrier ms"}};
  const auto push = [&](const std::string& label, const std::string& calls, double ms, double bytes,
                        double barrier_ms) {
    rows.push_back({label, calls, fmt::format("{:.3f}", ms / steps),
                    fmt::format("{:.1f} %", 100 * ms / table.step_ms),
                    bytes > 0 ? fmt::format("{:.1f}", bytes / steps * 1e-6) : "",
                    bytes > 0 && ms > 0 ? fmt::format("{:.1f}", bytes / ms * 1e-6) : "",
                    fmt::format("{:.3f}", barrier_ms / steps)});
  };
  ProfileLine all;
  for (const ProfileLine& line : table.lines) {
    push(line.label, std::to_string(line.calls / std::max<std::int64_t>(1, table.steps)), line.ms, line.bytes,
         line.barrier_ms);
    all.bytes += line.bytes, all.barrier_ms += line.barrier_ms;
  }
  push("whole step", "", table.step_ms, all.bytes, all.barrier_ms);
  return table_text(rows);
}

}  // namespace ft
