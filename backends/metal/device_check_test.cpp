// The self-test finds a device that computes something else, breaks the row rule or fails.
#include "backends/metal/device_check.h"

#include <cstring>
#include <gtest/gtest.h>
#include <stdexcept>

#include "backends/metal/backend.h"
#include "backends/metal/forwarding_device.h"

namespace ft::metal {
namespace {

/// The twin with a fault after each launch of one kernel.
class Faulty final : public ForwardingDevice {
 public:
  Faulty(std::string_view kernel, float added, bool throws)
      : ForwardingDevice(open_twin_device()),
        kernel_(inner().kernel(kernel)),
        added_(added),
        throws_(throws) {}
  std::string_view name() const override { return "metal"; }
  std::string describe() const override { return "Apple M0"; }
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    inner().dispatch(kernel, buffers, args, grid, threads);
    if (kernel != kernel_) return;
    if (throws_) throw std::runtime_error("the GPU was taken away");
    float value = 0;
    std::memcpy(&value, buffers.back().data(), sizeof value);
    value += added_ * (1 + std::abs(value));
    std::memcpy(buffers.back().data(), &value, sizeof value);
  }

 private:
  int kernel_;
  float added_;
  bool throws_;
};

std::string problem(const char* kernel, float added, bool throws = false) {
  const Status status = self_test(std::make_shared<Faulty>(kernel, added, throws));
  return status.ok() ? "" : status.error().message;
}

TEST(MetalSelfTest, TheTwinPasses) { EXPECT_EQ(problem("conv", 0), ""); }

TEST(MetalSelfTest, ResultsOfAnotherKindAreFound) {
  EXPECT_NE(problem("rms_norm", 3).find("differ by"), std::string::npos);
  EXPECT_NE(problem("attend_merge", 1e30F).find("Apple M0"), std::string::npos);
}

TEST(MetalSelfTest, ABitThatDependsOnTheNumberOfRowsIsFound) {
  EXPECT_NE(problem("linear_few2_affine5", 1e-6F).find("other bits among 2 rows"), std::string::npos);
  EXPECT_NE(problem("linear_many_affine5", 1e-6F).find("other bits among 1 rows"), std::string::npos);
}

TEST(MetalSelfTest, AnErrorOfTheGpuIsASentence) {
  EXPECT_NE(problem("conv", 0, true).find("the GPU was taken away"), std::string::npos);
}

/// The way of a Mac whose GPU computes something else: --backend auto takes the processor and says why.
TEST(MetalSelfTest, AutoTakesTheProcessorWithASentence) {
  std::string said;
  BackendOptions options;
  options.threads = 1;
  options.notice = [&said](const std::string& why) { said = why; };
  const auto chosen = [&](float added) {
    said.clear();
    auto made = choose_backend(
        options, make_tested_backend(std::make_shared<Faulty>("rms_norm", added, false), options));
    return std::string((*made)->name());
  };
  EXPECT_EQ(chosen(0), "metal");
  EXPECT_EQ(said, "");
  EXPECT_EQ(chosen(3), "cpu");
  EXPECT_TRUE(said.starts_with(
      "--backend auto takes the CPU, not the GPU: metal backend: Apple M0 fails the self-test: its results"))
      << said;
}

}  // namespace
}  // namespace ft::metal
