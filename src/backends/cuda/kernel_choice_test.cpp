// Which kernel a shape gets on a Hopper GPU, by a driver that notes what is launched.
#include <algorithm>
#include <gtest/gtest.h>

#include "backends/cuda/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/fake_driver.h"
#include "backends/instruction_programs.h"
#include "backends/random_weights.h"

namespace ft {
namespace {

/// The widths that linears of published models read: hidden sizes, heads together, MLPs inside.
struct Widths {
  const char* model;
  std::vector<int> inputs;
};
const std::vector<Widths>& published() {
  static const std::vector<Widths> all = {
      {"Qwen3.5 0.8B to 27B", {1024, 2048, 2560, 3584, 4096, 5120, 6144, 9216, 12288, 17408}},
      {"Qwen3.5 35B-A3B, 122B-A10B", {512, 1024, 2048, 3072}},
      {"Gemma 4 E2B, E4B", {1536, 2560, 6144, 10240, 12288}},
      {"Gemma 4 26B-A4B", {704, 2112, 2816, 4096, 8192}},
      {"Gemma 4 31B", {5376, 8192, 16384, 21504}},
      {"Llama 3", {2048, 3072, 4096, 8192, 14336, 28672}},
      {"SmolLM2, SmolLM3", {576, 960, 1536, 2560, 8192, 11008}},
      {"Granite 3", {2048, 4096, 8192, 12800}},
      {"Mistral", {4096, 5120, 12288, 14336, 32768}},
      {"Qwen2.5", {896, 1536, 3584, 4864, 8960, 11008, 13824, 18944, 27648, 29568}},
      {"Qwen3", {768, 1024, 2048, 2560, 4096, 5120, 6144, 9728, 12288, 25600}},
      {"gpt-oss", {2880, 4096}},
      {"GLM-4.5 to 4.7", {1408, 1536, 4096, 5120, 10944, 12288}},
  };
  return all;
}

std::vector<std::string> launched(int inputs, int rows) {
  cuda::FakeDriver driver;
  const std::vector<std::byte> images = cuda::FakeDriver::images("hopper_all");
  auto device = std::move(cuda::open_device({0, 50}, driver.table, images).value());
  const auto backend = std::move(cuda::make_backend_on(std::move(device), 16).value());
  RandomWeights random(3);
  Program program;
  program.capture("out", program.linear(program.input(inputs), {random.affine(64, inputs, 4, 64)})[0]);
  const std::vector<float> given(static_cast<std::size_t>(inputs) * static_cast<std::size_t>(rows));
  captured_rows(*backend, program, given, inputs, rows);
  return driver.launched;
}

/// Up to eight rows always; more where a slice of their codes fits beside three stages of weights.
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

}  // namespace
}  // namespace ft
