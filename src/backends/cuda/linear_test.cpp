// The packed linear against its definition, bit for bit: integers, IEEE fused multiply-adds, eight slices of
// K. And which compiled image a GPU takes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

#include "backends/cuda/arguments.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/kernel_images.h"
#include "backends/cuda/test_devices.h"
#include "backends/cuda/test_scale.h"
#include "backends/random_weights.h"
#include "format/affine.h"
#include "format/half.h"
#include "format/small_float.h"

namespace ft::cuda_linear_test {
namespace {

/// Codes as integers: e2m1 values are doubled.
std::vector<int> whole_codes(const Weight& weight, std::int64_t output) {
  const std::int64_t line = weight.cols * weight.bits / 8;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.cols));
  format::unpack_codes(weight.data + output * line, weight.bits, weight.cols, codes.data());
  const bool small_floats = weight.format == Format::kMxfp4;
  std::vector<int> whole;
  for (const std::uint8_t code : codes)
    whole.push_back(small_floats ? static_cast<int>(2 * format::e2m1_to_float(code)) : code);
  return whole;
}

/// One output of one row.
float oracle(const Weight& weight, std::int64_t output, std::span<const float> row) {
  const std::int64_t groups = weight.cols / weight.group;
  const std::vector<int> codes = whole_codes(weight, output);
  const bool small_floats = weight.format == Format::kMxfp4;
  float total = 0;
  for (std::int64_t slice = 0; slice < 8; ++slice) {
    float sum = 0;
    for (std::int64_t g = groups * slice / 8; g < groups * (slice + 1) / 8; ++g) {
      const auto first = static_cast<std::size_t>(g * weight.group);
      const std::span<const float> x = row.subspan(first, static_cast<std::size_t>(weight.group));
      float top = 0;
      for (const float value : x) top = std::max(top, std::fabs(value));
      const float scale = top / 127.0F, inverse = top > 0 ? 127.0F / top : 0;
      int dot = 0, all = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const int code = static_cast<int>(std::nearbyint(x[i] * inverse));
        dot += code * codes[first + i];
        all += code;
      }
      const std::int64_t at = output * groups + g;
      const float weight_scale = small_floats
                                     ? format::e8m0_to_float(static_cast<std::uint8_t>(weight.scales[at]))
                                     : stored_scale(weight, weight.scales, at);
      sum = std::fma(static_cast<float>(dot), weight_scale * scale, sum);
      if (!small_floats)
        sum = std::fma(stored_scale(weight, weight.biases, at), scale * static_cast<float>(all), sum);
    }
    total = slice == 0 ? sum : total + sum;
  }
  return small_floats ? 0.5F * total : total;
}

/// The smallest scale and small ones, whose products stay numbers.
Weight with_extreme_scales(Weight weight) {
  auto* const scales = const_cast<std::byte*>(weight.scales);  // of the test's own random weights
  for (int i = 0; i < 12; ++i) scales[i * 7] = static_cast<std::byte>(i % 4);
  return weight;
}

class CudaLinear : public testing::TestWithParam<std::string> {};

TEST_P(CudaLinear, HasTheBitsOfItsDefinition) {
  if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const auto backend = std::move(cuda_on(GetParam()).value());
  RandomWeights random(11);
  constexpr int kMxfp4 = 0;  // bits of it
  struct Case {
    int bits, group, cols;
    Format scales = Format::kBf16;
  };
  for (const auto& [bits, group, cols, scales] :
       {Case{4, 64, 1024}, Case{4, 32, 320}, Case{4, 32, 1088, Format::kF16}, Case{8, 128, 640},
        Case{3, 64, 448}, Case{8, 64, 704}, Case{8, 32, 1344}, Case{6, 32, 2208, Format::kF32},
        Case{8, 32, 672, Format::kF16}, Case{6, 16, 1104, Format::kF32}, Case{3, 16, 336, Format::kF16},
        Case{2, 16, 96, Format::kBf16}, Case{kMxfp4, 32, 320}, Case{kMxfp4, 32, 1440}}) {
    const Weight weight = bits == kMxfp4 ? with_extreme_scales(random.block_float(Format::kMxfp4, 40, cols))
                                         : random.affine(40, cols, bits, group, scales);
    Program program;
    program.capture("out", program.linear(program.input(cols), {weight})[0]);
    const auto executable =
        std::move(backend->compile(program, {.max_rows = 70, .max_logit_rows = 1}).value());
    const auto state = std::move(backend->make_state(program.layout(), {.slots = 1, .blocks = 1}).value());
    for (const int rows : {2, 3, 20, 70}) {
      std::vector<float> hidden(static_cast<std::size_t>(rows * cols));
      for (float& value : hidden) value = random.uniform() * std::exp(2 * random.uniform());
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows), 0), blocks = {0};
      const Segment segment{{blocks, 0, 0, 0}, 0, rows, rows};
      StepArgs args;
      const auto store = std::move(backend->make_rows(cols, rows).value());
      const auto captured = std::move(backend->make_rows(40, rows).value());
      store->write(0, hidden);
      std::vector<std::int32_t> places(tokens.size());
      std::iota(places.begin(), places.end(), 0);
      args.tokens = tokens, args.segments = {&segment, 1};
      args.hidden = {store.get(), places}, args.capture = {captured.get(), places};
      executable->run(args, *state);
      std::vector<float> out(static_cast<std::size_t>(rows * 40));
      captured->read(0, out);
      for (int r = 0; r < rows; ++r) {
        const auto row = std::span<const float>(hidden).subspan(static_cast<std::size_t>(r * cols),
                                                                static_cast<std::size_t>(cols));
        for (int o = 0; o < 40; ++o)
          ASSERT_EQ(out[static_cast<std::size_t>(r * 40 + o)], oracle(weight, o, row))
              << bits << " bits, group " << group << ", row " << r << ", output " << o;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaLinear, testing::ValuesIn(cuda_devices()),
                         [](const auto& device) { return device.param == "auto" ? "gpu" : device.param; });

/// Every byte of swizzled rows, by its definition (kernels/gemm.cu): word c + 4 t of a row's group is word t
/// of its part c; scales stay in eights of rows; rows beyond the last are zeros.
TEST(CudaArrangedRows, HaveEachWordWhereTheMatrixInstructionReadsIt) {
#if FORETOKEN_EMULATES_CUDA
  cuda::offer_emulated_device();
  const std::shared_ptr<cuda::Device> device = cuda::substitute_device();
  constexpr int kRows = 70, kGroups = 5, kTile = 48, kBlocks = 2, kStage = kTile * 72;
  const cuda::Memory codes(device, std::size_t{72} * kGroups * 64), out(device, kBlocks * kGroups * kStage);
  const cuda::Memory scales(device, std::size_t{9} * kGroups * 64);
  for (std::size_t i = 0; i < codes.bytes(); ++i) codes.at<std::uint8_t>()[i] = i * 7 % 251;
  for (std::size_t i = 0; i < scales.bytes() / 4; ++i) scales.at<float>()[i] = static_cast<float>(i);
  const cuda::SwizzleArgs args{
      codes.at<signed char>(), scales.at<float>(), out.at<unsigned char>(), kRows, kGroups, kTile};
  device->launch({"swizzle_activations", {2, 2}, 256}, &args);
  device->wait();
  for (int row = 0; row < kBlocks * kTile; ++row) {
    for (int g = 0; g < kGroups; ++g) {
      const int block = row / kTile, in_block = row % kTile;
      const auto* const stage = out.at<std::uint8_t>((block * kGroups + g) * kStage);
      for (int i = 0; i < 64; ++i) {
        const int word = i / 4, place = (word % 4 * kTile + in_block) * 16 + word / 4 * 4 + i % 4;
        const int expected = row < kRows ? codes.at<std::uint8_t>()[(row * kGroups + g) * 64 + i] : 0;
        ASSERT_EQ(stage[place], expected) << "row " << row << ", group " << g << ", code " << i;
      }
      const auto* const eight = reinterpret_cast<const float*>(stage + kTile * 64) + in_block / 8 * 16;
      for (int i = 0; i < 16; ++i)
        ASSERT_EQ(eight[i], row < 72 ? static_cast<float>((row / 8 * kGroups + g) * 16 + i) : 0) << row;
    }
  }
#else
  GTEST_SKIP() << "needs the emulated device";
#endif
}

TEST(CudaImages, AGpuTakesTheNewestOfItsGenerationElsePtx) {
  const auto image = [](int capability, char kind, bool ptx) {
    return cuda::KernelImage{"norm", capability, kind, ptx, {}};
  };
  const std::vector<cuda::KernelImage> all = {image(80, ' ', false),  image(89, ' ', false),
                                              image(90, 'a', false),  image(100, 'f', false),
                                              image(120, 'f', false), image(80, ' ', true)};
  const auto chosen = [&](int capability) {
    const std::vector<cuda::KernelImage> images = cuda::choose_images(all, capability);
    return images.empty() ? 0 : images[0].ptx ? -images[0].capability : images[0].capability;
  };
  EXPECT_EQ(chosen(75), 0);
  EXPECT_EQ(chosen(80), 80);
  EXPECT_EQ(chosen(86), 80);
  EXPECT_EQ(chosen(89), 89);
  EXPECT_EQ(chosen(90), 90);
  EXPECT_EQ(chosen(103), 100);
  EXPECT_EQ(chosen(110), -80) << "a generation without an image: the driver compiles the text";
  EXPECT_EQ(chosen(121), 120);
}

}  // namespace
}  // namespace ft::cuda_linear_test
