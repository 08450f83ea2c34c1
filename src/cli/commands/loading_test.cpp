// The lines of `inspect` about the GPU of recorded Macs: the kernels' twin with their names and limits.
#include "cli/commands/loading.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/metal/backend.h"
#include "backends/metal/forwarding_device.h"
#include "backends/metal/recorded_macs.h"
#include "models/synthetic/model.h"

namespace ft::cli::loading_test {
namespace {

/// The GPU of a recorded Mac, as far as `inspect` uses it.
class RecordedGpu final : public metal::ForwardingDevice {
 public:
  explicit RecordedGpu(const metal::GpuFacts& facts)
      : ForwardingDevice(metal::open_twin_device()), facts_(facts) {}
  std::string_view name() const override { return "metal"; }
  std::string describe() const override { return metal::describe(facts_); }
  std::int64_t memory_bytes() const override { return static_cast<std::int64_t>(facts_.working_set); }

 private:
  metal::GpuFacts facts_;
};

Model made(const std::string& name) { return std::move(make_synth_model(name, {}).value()); }

std::string fit_on(const metal::RecordedMac& mac, const Model& model, std::int64_t context) {
  const auto gpu = std::move(metal::make_backend_on(std::make_shared<RecordedGpu>(mac.gpu), 16, {}).value());
  return gpu_fit(*gpu, model, context);
}

TEST(GpuFit, AModelFitsARecordedMacOrTheSentenceNamesItsLimit) {
  constexpr std::uint64_t kEnoughFor27b = 20'000'000'000;
  const Model model = made("synth:qwen3.5-0.8b?bits=4"), model_27b = made("synth:qwen3.5-27b?bits=4");
  for (const metal::RecordedMac& mac : metal::kRecordedMacs) {
    const std::string small = fit_on(mac, model, 4096), large = fit_on(mac, model_27b, 4096);
    EXPECT_TRUE(small.starts_with("fits: ")) << small;
    EXPECT_NE(small.find(std::string("free on ") + mac.text), std::string::npos) << small;
    EXPECT_NE(small.find("not yet measured"), std::string::npos) << small;
    const std::string limit =
        fmt::format("{:.2f} GB may be used", static_cast<double>(mac.gpu.working_set) / 1e9);
    if (mac.gpu.working_set >= kEnoughFor27b) {
      EXPECT_TRUE(large.starts_with("fits: ")) << large;
    } else {
      EXPECT_NE(large.find(limit), std::string::npos) << large;
    }
  }
}

TEST(GpuFit, ALongerContextIsRefusedWithTheOneThatFits) {
  const metal::RecordedMac& mac = metal::kRecordedMacs[0];
  const Model model = made("synth:qwen3.5-4b?bits=4");
  const std::string said = fit_on(mac, model, 262144);
  EXPECT_NE(said.find("5.73 GB may be used"), std::string::npos) << said;
  EXPECT_NE(said.find("use a smaller --context"), std::string::npos) << said;
  EXPECT_TRUE(fit_on(mac, model, 4096).starts_with("fits: "));
}

}  // namespace
}  // namespace ft::cli::loading_test
