#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backends/metal/recorded_macs.h"
#include "cli/terminal/report_json.h"
#include "lab/machine.h"

namespace ft::cli::machine_report_test {
namespace {

TEST(Machine, AProcessorThatSlowsDownInTheChecksIsAWarning) {
  PowerFacts before{"performance", 3000, 3800, 5}, after = before;
  EXPECT_TRUE(check_throttling(before, after).empty());
  after.throttled_times = 8;
  const std::vector<Finding> found = check_throttling(before, after);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Finding::Kind::kWarning);
  EXPECT_NE(found[0].what.find("3 times"), std::string::npos);
  before.throttled_times = -1;
  EXPECT_TRUE(check_throttling(before, after).empty()) << "what is unknown warns of nothing";
}

/// Macs as their owners published them; values that macOS does not report stay empty and give no warning.
TEST(Machine, TheReportOfAMacHasItsMemoryItsGpuAndItsLimit) {
  for (const metal::RecordedMac& mac : metal::kRecordedMacs) {
    Machine machine;
    machine.system = "Darwin 24.5.0 arm64", machine.processor = mac.gpu.name;
    machine.features = {"asimd", "asimddp"};
    machine.logical_cores = 8;
    machine.memory_total = mac.memory, machine.memory_available = mac.memory / 2;
    const std::vector<Finding> findings = check_machine(machine, 8);
    for (const Finding& finding : findings) EXPECT_EQ(finding.kind, Finding::Kind::kGood) << finding.what;
    const auto limit = static_cast<std::int64_t>(mac.gpu.working_set);
    const std::string gpu = metal::describe(mac.gpu);
    const auto report = nlohmann::json::parse(doctor_json(machine, findings, gpu, GpuMemory{limit, 0}));
    EXPECT_EQ(report["processor"], mac.gpu.name);
    EXPECT_EQ(report["memory"]["total_bytes"], mac.memory);
    EXPECT_EQ(report["gpu_memory"]["free_bytes"], limit);
    EXPECT_NE(report["backend"].get<std::string>().find("not yet measured"), std::string::npos);
    EXPECT_TRUE(report["clock"]["throttled_times"].is_null());
    EXPECT_TRUE(report["good"]);
  }
}

}  // namespace
}  // namespace ft::cli::machine_report_test
