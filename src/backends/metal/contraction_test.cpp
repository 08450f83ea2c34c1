// A compiler that fuses a * b + c on its own changes no bit: every product that is added is an fma() already.
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backends/metal/executable.h"
#include "backends/metal/forwarding_device.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"

namespace ft::metal::contraction_test {
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

/// The results of each draft kernel, for rows of every kind over three parts.
[[maybe_unused]] std::vector<std::byte> drafts(Device& device) {
  constexpr unsigned kRows = 3, kColumns = 9001, kParts = 3, kKept = 20;
  std::vector<Buffer> buffers;
  const auto room = [&](std::size_t count) {
    buffers.push_back(device.allocate(count * sizeof(float)).value());
    std::memset(buffers.back().data, 0, buffers.back().bytes);
    return buffers.size() - 1;
  };
  const std::size_t logits = room(std::size_t{kRows} * kColumns),
                    rows = room(kRows * sizeof(DraftRowArgs) / 4), tops = room(kRows * kParts * 2),
                    list = room(kRows * kParts * kKept), limits = room(kRows),
                    best = room(kRows * kParts * 2), chosen = room(kRows), round = room(kRows);
  for (unsigned i = 0; i < kRows * kColumns; ++i)
    reinterpret_cast<float*>(buffers[logits].data)[i] = static_cast<float>(i * 7919 % 20011) * 6e-4F - 6;
  for (unsigned r = 0; r < kRows; ++r) {
    DraftRowArgs row{};
    row.seed_low = 12345, row.seed_high = 77 + r, row.position_low = 1000 * r,
    row.store = static_cast<int>(r);
    row.temperature = 0.7F * static_cast<float>(r), row.top_p = 1;
    if (r == 2) row.top_k = kKept, row.top_p = 0.9F, row.min_p = 0.01F;
    std::memcpy(buffers[rows].data + r * sizeof row, &row, sizeof row);
  }
  const DraftArgs args{kColumns, kParts, 0, kKept, 1};
  const auto launch = [&](const char* name, std::initializer_list<std::size_t> given, Grid grid) {
    std::vector<Place> places;
    for (const std::size_t at : given) places.push_back({&buffers[at], 0});
    device.dispatch(device.kernel(name), places, as_args(args), grid, 256);
  };
  const Grid all{kParts, kRows, 1}, one{1, kRows, 1};
  launch("draft_tops", {logits, logits, rows, tops}, all);
  launch("draft_keep", {logits, logits, rows, list}, all);
  launch("draft_limit", {list, tops, rows, limits}, one);
  launch("draft_scores", {logits, logits, rows, tops, limits, best}, all);
  launch("draft_choice", {best, rows, chosen, round}, one);
  std::vector<std::byte> bytes;
  for (Buffer& buffer : buffers) {
    bytes.insert(bytes.end(), buffer.data, buffer.data + buffer.bytes);
    device.release(buffer);
  }
  return bytes;
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
  Contracted contracted(run);
  EXPECT_EQ(drafts(contracted), drafts(*open_twin_device()));
  EXPECT_EQ(contracted.launches, 5);
#else
  GTEST_SKIP() << "the contracted module is built for x86-64 without sanitizers";
#endif
}

}  // namespace
}  // namespace ft::metal::contraction_test
