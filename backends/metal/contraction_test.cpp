// A compiler that fuses a * b + c on its own changes no bit: every product that is added is an fma() already.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <map>

#include "backends/metal/executable.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"

namespace ft::metal {
namespace {

using RunKernel = void (*)(const char* name, std::byte* const* buffers, std::size_t count,
                           const std::byte* args, unsigned x, unsigned y, unsigned z, int threads);

/// The twin, with every kernel from the contracted module.
class Contracted final : public Device {
 public:
  explicit Contracted(RunKernel run) : run_(run) {}
  std::string_view name() const override { return "metal-twin"; }
  std::string describe() const override { return "contracted"; }
  Result<Buffer> allocate(std::size_t bytes) override { return twin_->allocate(bytes); }
  void release(Buffer& buffer) override { twin_->release(buffer); }
  int kernel(std::string_view name) const override {
    const int number = twin_->kernel(name);
    names_[number] = name;
    return number;
  }
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    std::vector<std::byte*> places;
    for (const Place& place : buffers) places.push_back(place.data());
    run_(names_[kernel].c_str(), places.data(), places.size(), args.data(), grid.x, grid.y, grid.z, threads);
    ++launches;
  }
  void finish() override {}
  std::int64_t memory_bytes() const override { return 0; }

  int launches = 0;

 private:
  std::shared_ptr<Device> twin_ = open_twin_device();
  RunKernel run_;
  mutable std::map<int, std::string> names_;
};

std::vector<float> logits(const std::shared_ptr<Device>& device, const TestShape& shape) {
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
