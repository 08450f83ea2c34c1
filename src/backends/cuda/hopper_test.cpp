// The linears that are made for Hopper: the bits of the general kernels, whatever the number of rows, weights
// and widths. Where there is no GPU, on an emulated one that has Hopper's copies and asynchronous products.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/device.h"
#include "backends/cuda/test_devices.h"
#include "backends/instruction_programs.h"
#include "backends/random_weights.h"

namespace ft::hopper_test {
namespace {

constexpr const char* kEmulatedHopper = "emulated_hopper";

std::vector<std::string> devices() {
#if FORETOKEN_EMULATES_CUDA
  return {kEmulatedHopper, "auto"};
#else
  return {"auto"};
#endif
}

std::unique_ptr<Backend> backend_on(const std::string& device) {
#if FORETOKEN_EMULATES_CUDA
  if (device == kEmulatedHopper) return std::move(cuda::make_backend_on(cuda::emulated_hopper(), 16).value());
#endif
  return std::move(cuda_on(device).value());
}

/// Weights that share a kernel. Groups of 16 have no asynchronous kernel.
struct Kind {
  int bits, group;
  Format scales;
};
constexpr Kind kKinds[] = {{4, 64, Format::kBf16}, {4, 32, Format::kBf16}, {4, 32, Format::kF32},
                           {4, 32, Format::kF16},  {8, 32, Format::kBf16}, {8, 32, Format::kF32},
                           {5, 32, Format::kF16},  {6, 16, Format::kF32},  {3, 16, Format::kF16},
                           {8, 64, Format::kBf16}, {4, 64, Format::kF16}};

class CudaHopper : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!emulated()) {
      if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
    }
    backend_ = backend_on(GetParam());
  }

  bool emulated() const { return GetParam() == kEmulatedHopper; }
  Weight weight(const Kind& kind, int outputs, int inputs) {
    return random_.affine(outputs, inputs, kind.bits, kind.group, kind.scales);
  }
  /// Steps of `chunks` rows against `other`'s of 32, which `linear` computes.
  void expect_bits_of(Backend& other, const Program& program, int inputs, int rows,
                      std::initializer_list<int> chunks) {
    const std::vector<float> given = random_rows(random_, rows, inputs);
    const std::vector<float> expected = captured_rows(other, program, given, inputs, 32);
    for (const int chunk : chunks)
      ASSERT_EQ(captured_rows(*backend_, program, given, inputs, chunk), expected) << "steps of " << chunk;
    if (rows > 32) {  // by `gemm`
      ASSERT_EQ(captured_rows(other, program, given, inputs, rows), expected);
    }
  }

  std::unique_ptr<Backend> backend_;
  RandomWeights random_{21};
};

/// A norm, two linears, a sum: blocks make codes of rows themselves, and add.
Program program_of(RandomWeights& random, const Weight& first, const Weight& second) {
  Program program;
  const Row in = program.input(static_cast<int>(first.cols));
  const Row normed = program.norm(in, random.plain(Format::kBf16, 1, first.cols, 0.3F, 1), 1e-6F);
  const Row inner = program.linear(normed, {first})[0];
  program.capture("out", program.add(program.linear(inner, {second})[0], in));
  return program;
}

/// The general kernels have their definition's bits (linear_test.cpp).
TEST_P(CudaHopper, LinearsHaveTheBitsOfTheGeneralKernels) {
  if (!emulated()) GTEST_SKIP() << "the next test has a GPU's";
#if FORETOKEN_EMULATES_CUDA
  const std::unique_ptr<Backend> general = std::move(cuda_on(cuda::kEmulatedDevice).value());
  for (const Kind& kind : kKinds) {
    // Slices that differ, some without a group; pieces of two to five groups; K that 128 does not divide.
    for (const int inputs : {320, 1088}) {
      SCOPED_TRACE(fmt::format("{} bits, group {}, {} inputs", kind.bits, kind.group, inputs));
      const Program program = program_of(random_, weight(kind, 64, inputs), weight(kind, inputs, 64));
      expect_bits_of(*general, program, inputs, 11, {1, 2, 3, 11});
    }
    // A prompt in blocks of 64 and of 80 rows; its second product has too few outputs for them.
    SCOPED_TRACE(fmt::format("{} bits, group {}, a prompt", kind.bits, kind.group));
    const Program prompt = program_of(random_, weight(kind, 320, 192), weight(kind, 192, 320));
    expect_bits_of(*general, prompt, 192, 150, {100, 150});
  }
#endif
}

TEST_P(CudaHopper, RowsHaveTheSameBitsInStepsOfAnySize) {
  const bool small = emulated();
  const int rows = small ? 17 : 400, inner = small ? 192 : 4160;
  for (const Kind& kind : kKinds) {
    for (const int inputs : small ? std::vector{512} : std::vector{2880, 9216}) {
      SCOPED_TRACE(fmt::format("{} bits, group {}, {} inputs", kind.bits, kind.group, inputs));
      const Program program = program_of(random_, weight(kind, inner, inputs), weight(kind, inputs, inner));
      const std::vector<float> given = random_rows(random_, rows, inputs);
      const std::vector<float> expected = captured_rows(*backend_, program, given, inputs, 1);
      for (const int chunk : small ? std::vector{4, 5, 16} : std::vector{2, 4, 7, 16, 33, 65, 400})
        ASSERT_EQ(captured_rows(*backend_, program, given, inputs, chunk), expected) << "steps of " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaHopper, testing::ValuesIn(devices()),
                         [](const auto& device) { return device.param == "auto" ? "gpu" : device.param; });

}  // namespace
}  // namespace ft::hopper_test
