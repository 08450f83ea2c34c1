// A compiler that fuses a * b + c on its own changes no bit: every product that is added is an fma() already.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backends/metal/executable.h"
#include "backends/metal/forwarding_device.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"

namespace ft::metal {
namespace {

using RunKernel = void (*)(const char* name, std::byte* const* buffers, std::size_t count,
                           const std::byte* args, unsigned x, unsigned y, unsigned z, int threads);

/// The twin, with every kernel from the contracted module.
class Contracted final : public ForwardingDevice {
 public:
  explicit Contracted(RunKernel run) : ForwardingDevice(open_twin_device()), run_(run) {}
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    std::vector<std::byte*> places;
    for (const Place& place : buffers) places.push_back(place.data());
    run_(name_of(kernel).c_str(), places.data(), places.size(), args.data(), grid.x, grid.y, grid.z, threads);
    ++launches;
  }

  int launches = 0;

 private:
  RunKernel run_;
};

[[maybe_unused]] std::vector<float> logits(const std::shared_ptr<Device>& device, const TestShape& shape) {
  const TestProgram test(shape, 6);
  const auto executable =
      std::move(compile(device, test.program, {.max_rows = 20, .max_logit_rows = 20}).value());
  const auto state =
      std::move(MetalState::make(device, test.program.layout(), {.slots = 1, .blocks = 1}).value());
  TestTimeline timeline(*executable, *state, {0}, 0);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 20; ++i) tokens.push_back(i * 31 % shape.vocabulary);
  return timeline.step(tokens, 20);
}

TEST(MetalContraction, ChangesNoBit) {
#ifdef FT_CONTRACTED
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has no fused multiply and add";
  void* const module = ::dlopen(FT_CONTRACTED, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << ::dlerror();
  const auto run = reinterpret_cast<RunKernel>(::dlsym(module, "ft_run_contracted"));
  ASSERT_NE(run, nullptr);
  TestShape plain = TestShape::odd();
  plain.bits = 0;
  for (const TestShape& shape : {TestShape{}, TestShape::odd(), plain, TestShape::widened(),
                                 TestShape::mixture(), TestShape::vision()}) {
    const auto contracted = std::make_shared<Contracted>(run);
    EXPECT_EQ(logits(contracted, shape), logits(open_twin_device(), shape));
    EXPECT_GT(contracted->launches, 20);
  }
#else
  GTEST_SKIP() << "the contracted module is built for x86-64 without sanitizers";
#endif
}

}  // namespace
}  // namespace ft::metal
