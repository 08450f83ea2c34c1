#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backends/metal/gpu_facts.h"
#include "cli/terminal/report_json.h"
#include "lab/machine.h"

namespace ft::cli {
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

/// Macs as their owners published them; what macOS does not tell stays empty and warns of nothing.
TEST(Machine, TheReportOfAMacHasItsMemoryItsGpuAndItsLimit) {
  struct Mac {
    const char* processor;
    int cores, family;
    std::int64_t memory, working_set;
  };
  for (const Mac& mac :
       {Mac{"Apple M1", 8, 7, 8LL << 30, 5461LL << 20}, Mac{"Apple M2 Max", 12, 8, 32LL << 30, 21845LL << 20},
        Mac{"Apple M3 Max", 16, 9, 48LL << 30, 38'654'710'000},
        Mac{"Apple M4", 10, 9, 16LL << 30, 11'453'250'000},
        Mac{"Apple M5 Max", 18, 10, 48LL << 30, 40'200'900'000}}) {
    Machine machine;
    machine.system = "Darwin 24.5.0 arm64", machine.processor = mac.processor;
    machine.features = {"asimd", "asimddp"};
    machine.logical_cores = mac.cores;
    machine.memory_total = mac.memory, machine.memory_available = mac.memory / 2;
    const std::vector<Finding> findings = check_machine(machine, mac.cores);
    for (const Finding& finding : findings) EXPECT_EQ(finding.kind, Finding::Kind::kGood) << finding.what;
    const auto limit = static_cast<std::uint64_t>(mac.working_set);
    const std::string gpu = metal::describe({mac.processor, mac.family, limit, limit});
    const auto report =
        nlohmann::json::parse(doctor_json(machine, findings, gpu, GpuMemory{mac.working_set, 0}));
    EXPECT_EQ(report["processor"], mac.processor);
    EXPECT_EQ(report["memory"]["total_bytes"], mac.memory);
    EXPECT_EQ(report["gpu_memory"]["free_bytes"], mac.working_set);
    EXPECT_NE(report["backend"].get<std::string>().find("unmeasured by the project"), std::string::npos);
    EXPECT_TRUE(report["clock"]["throttled_times"].is_null());
    EXPECT_TRUE(report["good"]);
  }
}

}  // namespace
}  // namespace ft::cli
