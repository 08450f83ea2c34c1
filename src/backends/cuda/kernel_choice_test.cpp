// Which kernel a shape gets on a Hopper GPU, by a driver that notes what is launched.
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>

#include "backends/cuda/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/fake_driver.h"
#include "backends/cuda/linear_kernels.h"
#include "backends/cuda/published_widths.h"
#include "backends/cuda/recording_device.h"
#include "backends/instruction_programs.h"
#include "backends/random_weights.h"

namespace ft::kernel_choice_test {
namespace {

struct Kind {
  int bits = 4, group = 64;
  Format scales = Format::kBf16;
};

std::vector<std::string> launched(int inputs, int rows, const Kind& kind = {}, int activations = 8) {
  cuda::FakeDriver driver;
  const std::vector<std::byte> images = cuda::FakeDriver::images("hopper_all");
  auto device = std::move(cuda::open_device({0, 50}, driver.table, images).value());
  const auto backend = std::move(cuda::make_backend_on(std::move(device), 16, activations).value());
  RandomWeights random(3);
  Program program;
  program.capture("out", program.linear(program.input(inputs),
                                        {random.affine(64, inputs, kind.bits, kind.group, kind.scales)})[0]);
  const std::vector<float> given(static_cast<std::size_t>(inputs) * static_cast<std::size_t>(rows));
  captured_rows(*backend, program, given, inputs, rows);
  return driver.launched;
}

/// Up to eight rows always; more where a slice of their codes fits next to three stages of weights.
TEST(CudaKernelChoice, EveryPublishedWidthFindsAStreamingKernel) {
  constexpr int kWidest = 24576;
  for (const Widths& widths : published()) {
    for (const int inputs : widths.inputs) {
      for (const int rows : {1, 2, 4, 8, 16, 32, 64}) {
        if (rows > 16 && inputs > kWidest) continue;
        const std::vector<std::string> kernels = launched(inputs, rows);
        const auto streams = [](const std::string& kernel) {
          return kernel.starts_with("stream_") || kernel.starts_with("splitk_cluster_gemm_");
        };
        EXPECT_TRUE(std::ranges::any_of(kernels, streams))
            << widths.model << ": " << inputs << " inputs, " << rows << " rows";
      }
    }
  }
}

TEST(CudaKernelChoice, SlicesOfUnequalSizesHaveKernelsOfTheirOwn) {
  const auto takes = [](int inputs, int rows, const char* kernel) {
    const std::vector<std::string> kernels = launched(inputs, rows);
    return std::ranges::find(kernels, kernel) != kernels.end();
  };
  EXPECT_TRUE(takes(5120, 1, "stream_2_5"));
  EXPECT_TRUE(takes(5120, 8, "stream_8_5"));
  EXPECT_TRUE(takes(5376, 1, "stream_uneven_2_6"));
  EXPECT_TRUE(takes(5376, 4, "stream_uneven_4_6"));
  EXPECT_TRUE(takes(21504, 1, "stream_2_6"));
  EXPECT_TRUE(takes(5376, 40, "splitk_cluster_gemm_6"));
}

/// Groups of 32 and 16, as of all GGUF types, and groups of 64, as of MLX; scales of float16 stay so.
TEST(CudaKernelChoice, WeightsOfAllGgufTypesAndOfMlxStream) {
  struct Case {
    Kind kind;
    const char* kernel;
  };
  const Case cases[] = {{{4, 32, Format::kBf16}, "stream_4_32_0_"}, {{4, 32, Format::kF16}, "stream_4_32_2_"},
                        {{8, 32, Format::kBf16}, "stream_8_32_0_"}, {{8, 32, Format::kF16}, "stream_8_32_2_"},
                        {{5, 32, Format::kF32}, "stream_8_32_1_"},  {{6, 32, Format::kF16}, "stream_8_32_2_"},
                        {{6, 16, Format::kF32}, "stream_8_16_1_"},  {{3, 16, Format::kF16}, "stream_4_16_1_"},
                        {{8, 64, Format::kBf16}, "stream_8_64_0_"}, {{6, 64, Format::kF16}, "stream_8_64_2_"},
                        {{4, 64, Format::kF16}, "stream_4_64_2_"}};
  for (const auto& [kind, kernel] : cases) {
    for (const int inputs : {960, 2560, 5376, 17408}) {
      for (const int rows : {1, 2, 4, 8}) {
        if (kind.group != 32 && inputs * rows > 1 << 17) continue;  // the codes or stages do not fit
        const std::vector<std::string> kernels = launched(inputs, rows, kind);
        const std::string expected = fmt::format("{}{}", kernel, std::max(rows, 2));
        EXPECT_TRUE(std::ranges::find(kernels, expected) != kernels.end())
            << expected << ", " << inputs << " inputs";
      }
    }
  }
}

/// No kernel of codes gets rows of halves.
TEST(CudaKernelChoice, SixteenBitActivationsHaveKernelsOfTheirOwn) {
  for (const Kind& kind :
       {Kind{}, Kind{8, 64}, Kind{4, 32, Format::kF16}, Kind{8, 32}, Kind{6, 16, Format::kF32}}) {
    for (const int rows : {1, 8, 16, 40, 200, 1024}) {
      for (const std::string& kernel : launched(1024, rows, kind, 16)) {
        const bool multiplies = kernel.find("linear") != std::string::npos ||
                                kernel.find("gemm") != std::string::npos || kernel.starts_with("stream");
        EXPECT_TRUE(!multiplies || kernel.find("half") != std::string::npos)
            << kernel << ", " << rows << " rows";
      }
    }
  }
}

/// A call launches the kernel that its entry of the table states, as the entry states it.
TEST(CudaKernelChoice, EachKernelNeedsWhatItSays) {
  for (const int device_kind : {0, 1, 2, 3}) {
    const bool hopper = device_kind % 2 == 0;
    const auto arithmetic = device_kind < 2 ? cuda::Arithmetic::kCodes : cuda::Arithmetic::kHalves;
    cuda::DeviceFacts facts;
    facts.processors = hopper ? 132 : 108, facts.shared_bytes = (hopper ? 227 : 163) << 10;
    facts.streams = facts.async_products = hopper;
    cuda::RecordingDevice device(facts, hopper ? 16 : 0);
    for (const int inputs : published_inputs()) {
      for (const int at : {1, 4, 9, 16, 33, 64, 200, 1024, -1, -4, -16, -64, -200, -1024}) {
        const int rows = std::abs(at), group = at < 0 ? 32 : 64;
        cuda::LinearCall call;
        call.kind = group == 32 ? cuda::WeightKind{inputs % 128 == 0 ? 8 : 4, 32, cuda::kFloatScales}
                                : cuda::kStreamedKind;
        call.arithmetic = arithmetic;
        call.args.groups = inputs / group, call.args.tiles = 320, call.args.rows = rows;
        const cuda::LinearKernel& kernel = cuda::choose_linear(call, device);
        const cuda::LinearNeeds needs = kernel.needs(call, device);
        EXPECT_EQ(needs.rows, call.kind.activations(arithmetic));
        EXPECT_LE(needs.shared_bytes, facts.shared_bytes) << kernel.name << ", " << inputs << " inputs";
        EXPECT_LE(needs.workspace_bytes, cuda::linear_workspace(call.kind, arithmetic, inputs, rows, device));
        device.forget();
        kernel.launch(call, device);
        const std::string bytes = fmt::format(" {}:", needs.shared_bytes);
        const auto has = [&](const auto& one) { return one.line.find(bytes) != std::string::npos; };
        EXPECT_TRUE(std::ranges::any_of(device.noted(), has)) << kernel.name << " says" << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace ft::kernel_choice_test
