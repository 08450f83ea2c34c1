// 16-bit activations: products of packed weights with rows of halves, against their definition bit for bit,
// against float64, and whole programs against the reference and in steps of any size.
#include "format/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "backends/cuda/device.h"
#include "backends/cuda/emulator/matrix_sum.h"
#include "backends/cuda/test_devices.h"
#include "backends/cuda/test_scale.h"
#include "backends/instruction_programs.h"
#include "backends/random_weights.h"
#include "backends/ref/backend.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"
#include "backends/weight_rows.h"
#include "format/affine.h"
#include "format/small_float.h"

namespace ft::cuda_half_test {
namespace {

// ---- the definition (kernels/half.cuh) ----

/// Of a row; the first output's scales where the weight has no biases.
struct HalfOracle {
  const Weight& weight;
  bool small_floats() const { return weight.format == Format::kMxfp4; }
  /// Packed in four bits, where codes of two inputs share a byte.
  bool split() const { return weight.bits <= 4 && weight.group >= 32 && !small_floats(); }

  float scale(const std::byte* from, std::int64_t index) const {
    if (small_floats()) return format::e8m0_to_float(static_cast<std::uint8_t>(from[index]));
    return stored_scale(weight, from, index);
  }
  /// A code as a half: its bits are those of a subnormal one.
  std::uint16_t code(const std::vector<std::uint8_t>& codes, std::size_t input, bool high) const {
    if (!small_floats()) return static_cast<std::uint16_t>(codes[input] << (high ? 4 : 0));
    const float doubled = 2 * format::e2m1_to_float(codes[input]);
    const auto size = static_cast<std::uint16_t>(std::fabs(doubled));
    return static_cast<std::uint16_t>(size | (codes[input] & 8 ? 0x8000 : 0));
  }
  static std::uint16_t half(float x, bool high) {
    return format::float_to_f16(std::clamp(x * (high ? 0x1p-6F : 0x1p-2F), -65504.0F, 65504.0F));
  }

  /// Adds a group to `acc`; `x`: of the group.
  float add_group(std::int64_t output, std::int64_t g, const std::vector<std::uint8_t>& codes,
                  std::span<const float> x, float acc) const {
    const auto group = static_cast<std::size_t>(weight.group), own = group / 4;
    const std::size_t first = static_cast<std::size_t>(g) * group;
    const auto high_quad = [&](std::size_t quad) {
      return split() && (group < 64 ? quad % 2 == 1 : quad % 4 >= 2);
    };
    float dot = 0;
    for (std::size_t step = 0; step < group / 16; ++step) {
      constexpr std::size_t kOrder[] = {0, 2, 1, 3};
      const std::size_t quad = group < 64 ? step : step / 4 * 4 + kOrder[step % 4];
      cuda::HalfTerm left[16], right[16];
      for (std::size_t t = 0; t < 4; ++t) {
        for (std::size_t i = 0; i < 4; ++i) {
          const std::size_t input = t * own + quad * 4 + i;
          left[4 * t + i] = cuda::half_term(code(codes, first + input, high_quad(quad)));
          right[4 * t + i] = cuda::half_term(half(x[input], high_quad(quad)));
        }
      }
      dot = cuda::matrix_sum(dot, left, right);
    }
    std::vector<float> sums;
    for (std::size_t quad = 0; quad < group / 4; ++quad) {
      const bool high = high_quad(quad % (own / 4));
      float v[4];
      for (std::size_t i = 0; i < 4; ++i)
        v[i] = format::f16_to_float(half(x[4 * quad + i], high)) * (high ? 0x1p-20F : 0x1p-24F);
      sums.push_back((v[0] + v[1]) + (v[2] + v[3]));
    }
    for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
      for (std::size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    }
    const std::int64_t at = output * (weight.cols / weight.group) + g;
    acc = std::fma(dot, scale(weight.scales, at), acc);
    return small_floats() ? acc : std::fma(scale(weight.biases, at), sums[0], acc);
  }

  float operator()(std::int64_t output, std::span<const float> row) const {
    const std::int64_t groups = weight.cols / weight.group, line = weight.cols * weight.bits / 8;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.cols));
    format::unpack_codes(weight.data + output * line, weight.bits, weight.cols, codes.data());
    float total = 0;
    for (std::int64_t slice = 0; slice < 8; ++slice) {
      float acc = 0;
      for (std::int64_t g = groups * slice / 8; g < groups * (slice + 1) / 8; ++g) {
        const auto first = static_cast<std::size_t>(g * weight.group);
        acc = add_group(output, g, codes, row.subspan(first, static_cast<std::size_t>(weight.group)), acc);
      }
      total = slice == 0 ? acc : total + acc;
    }
    return total * (small_floats() ? 0x1p25F : 0x1p26F);
  }
};

class CudaHalf : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
    backend_ = std::move(cuda_on(GetParam(), 16, 16).value());
  }
  bool small() const { return GetParam() == "emulated"; }
  std::vector<float> product(Backend& backend, const Weight& weight, const std::vector<float>& rows,
                             int chunk) const {
    Program program;
    const int width = static_cast<int>(weight.cols);
    program.capture("out", program.linear(program.input(width), {weight})[0]);
    return captured_rows(backend, program, rows, width, chunk);
  }

  std::unique_ptr<Backend> backend_;
  RandomWeights random_{17};
};

TEST_P(CudaHalf, ProductsHaveTheBitsOfTheirDefinition) {
  constexpr int kMxfp4 = 0, kOutputs = 40;  // bits of it
  struct Case {
    int bits, group, cols;
    Format scales = Format::kBf16;
  };
  for (const auto& [bits, group, cols, scales] :
       {Case{4, 64, 1088}, Case{4, 32, 320}, Case{4, 32, 1088, Format::kF16}, Case{4, 128, 640},
        Case{8, 128, 640}, Case{3, 64, 448}, Case{4, 64, 704, Format::kF16}, Case{8, 64, 704},
        Case{8, 32, 1344}, Case{6, 32, 608, Format::kF32}, Case{8, 32, 672, Format::kF16},
        Case{6, 16, 1104, Format::kF32}, Case{3, 16, 336, Format::kF16}, Case{2, 16, 96, Format::kBf16},
        Case{8, 64, 320, Format::kF16}, Case{4, 64, 320, Format::kF32}, Case{kMxfp4, 32, 480}}) {
    const Weight weight = bits == kMxfp4 ? random_.block_float(Format::kMxfp4, kOutputs, cols)
                                         : random_.affine(kOutputs, cols, bits, group, scales);
    const HalfOracle oracle{weight};
    for (const int rows : {3, 20}) {
      const std::vector<float> given = random_rows(random_, rows, cols);
      const std::vector<float> got = product(*backend_, weight, given, rows);
      for (int r = 0; r < rows; ++r) {
        const auto row =
            std::span(given).subspan(static_cast<std::size_t>(r * cols), static_cast<std::size_t>(cols));
        for (int o = 0; o < kOutputs; ++o)
          ASSERT_EQ(got[static_cast<std::size_t>(r * kOutputs + o)], oracle(o, row))
              << bits << " bits, group " << group << ", row " << r << ", output " << o;
      }
    }
  }
}

/// Rows that normal numbers describe badly too: heavy tails, and one channel that is much larger.
TEST_P(CudaHalf, ProductsAreCloseToThoseInFloat64) {
  constexpr int kRows = 9, kCols = 1024, kOutputs = 64;
  const auto bytes = std::move(cuda_on(GetParam()).value());
  std::mt19937 numbers(3);
  std::normal_distribution<float> normal;
  for (const int kind : {0, 1, 2}) {
    for (const int bits : {4, 8}) {
      const Weight weight = random_.affine(kOutputs, kCols, bits, 64);
      std::vector<float> rows(kRows * kCols), values(kOutputs * kCols);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i] = normal(numbers) * (kind == 1 ? std::exp(normal(numbers)) : 1);
        if (kind == 2 && i % kCols == 77) rows[i] *= 60;
      }
      read_rows(weight, 0, kOutputs, values.data());
      const std::vector<float> half = product(*backend_, weight, rows, kRows),
                               byte = product(*bytes, weight, rows, kRows);
      double squares = 0, errors = 0, byte_errors = 0;
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t o = 0; o < kOutputs; ++o) {
          double exact = 0;
          for (std::size_t k = 0; k < kCols; ++k)
            exact += static_cast<double>(values[o * kCols + k]) * static_cast<double>(rows[r * kCols + k]);
          const std::size_t at = r * kOutputs + o;
          squares += exact * exact, errors += std::pow(half[at] - exact, 2);
          byte_errors += std::pow(byte[at] - exact, 2);
        }
      }
      EXPECT_LT(std::sqrt(errors / squares), 3e-4) << kind << ", " << bits << " bits";
      EXPECT_GT(std::sqrt(byte_errors / squares), 2e-3) << kind << ", " << bits << " bits";
    }
  }
}

/// Whatever a row holds: a number is a number after the product.
TEST_P(CudaHalf, NumbersBeyondAHalfStayNumbers) {
  const Weight weight = random_.affine(16, 64, 4, 64);
  std::vector<float> rows(64, 0.0F);
  rows[3] = 3e5F, rows[40] = -1e9F;
  for (const float value : product(*backend_, weight, rows, 1)) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(CudaHalf, RowsHaveTheSameBitsInStepsOfAnySize) {
  struct Kind {
    int bits, group, inputs;
    Format scales = Format::kBf16;
  };
  for (const Kind& kind : {Kind{4, 64, 320}, Kind{4, 64, 1024}, Kind{8, 32, 416, Format::kF16}}) {
    const int rows = 257, outputs = small() ? 48 : 5120;
    Program program;
    const Row in = program.input(kind.inputs);
    const Row normed = program.norm(in, random_.plain(Format::kBf16, 1, kind.inputs, 0.3F, 1), 1e-6F);
    const std::vector<Row> both =
        program.linear(normed, {random_.affine(outputs, kind.inputs, kind.bits, kind.group, kind.scales),
                                random_.affine(outputs, kind.inputs, kind.bits, kind.group, kind.scales)});
    program.capture("out", program.swiglu(both[0], both[1]));
    const std::vector<float> given = random_rows(random_, rows, kind.inputs);
    const std::vector<float> expected = captured_rows(*backend_, program, given, kind.inputs, rows);
    std::vector<int> chunks = {33, 64, 65};
    for (int chunk = 1; chunk <= 16; ++chunk) chunks.push_back(chunk);
    for (const int chunk : chunks) {
      const std::size_t part = small() && chunk <= 16 ? 2 * static_cast<std::size_t>(chunk) : rows;
      const std::vector<float> some(
          given.begin(),
          given.begin() + static_cast<std::ptrdiff_t>(part * static_cast<std::size_t>(kind.inputs)));
      const std::vector<float> got = captured_rows(*backend_, program, some, kind.inputs, chunk);
      const auto differs = std::ranges::mismatch(got, expected).in1 - got.begin();
      EXPECT_EQ(differs, std::ssize(got)) << kind.bits << " bits by " << chunk;
    }
  }
}

/// Experts in each format of weights; a launch for each part, whatever the number of rows.
TEST_P(CudaHalf, ExpertsAreCloseToTheReference) {
  constexpr int kExperts = 5, kWidth = 128, kSize = 64, kChosen = 2, kRows = 20;
  for (const int bits : {4, 8, 0}) {  // 0: mxfp4
    Program program;
    const Row in = program.input(kWidth + kExperts), x = part(program, in, 0, kWidth);
    MoeMlp experts;
    experts.in = x;
    experts.routes = program.append(TopKRouter{part(program, in, kWidth, kExperts), kChosen, true, {}, {}});
    const auto matrix = [&](int rows, int cols) {
      return bits == 0 ? random_.block_float(Format::kMxfp4, rows, cols)
                       : random_.affine(rows, cols, bits, 64);
    };
    for (int e = 0; e < kExperts; ++e) {
      experts.gate.push_back(matrix(kSize, kWidth)), experts.up.push_back(matrix(kSize, kWidth));
      experts.down.push_back(matrix(kWidth, kSize));
    }
    program.capture("out", program.add(x, program.append(std::move(experts))));
    const std::vector<float> rows = random_rows(random_, kRows, in.width);
    const auto reference = make_ref_backend();
    const std::vector<float> all = captured_rows(*backend_, program, rows, in.width, kRows);
    EXPECT_LT(difference(all, captured_rows(*reference, program, rows, in.width, kRows)), 1e-3) << bits;
    for (const int chunk : {1, 3, 9})
      EXPECT_EQ(captured_rows(*backend_, program, rows, in.width, chunk), all) << bits << " by " << chunk;
  }
}

TEST_P(CudaHalf, ProgramsAreCloseToTheReferenceAndTheSameInAnyChunk) {
  constexpr int kTokens = 24;
  TestShape mixture;
  mixture.experts = 9, mixture.chosen = 3, mixture.expert = 64;
  TestShape eight;
  eight.bits = 8;
  for (const TestShape& shape : {TestShape{}, TestShape::odd(), mixture, eight}) {
    const TestProgram test(shape, 1);
    const auto reference = make_ref_backend();
    std::vector<std::vector<float>> logits;
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < kTokens; ++i) tokens.push_back(i * 31 % shape.vocabulary);
    const auto run = [&](Backend& backend, int chunk) {
      const auto executable =
          std::move(backend.compile(test.program, {.max_rows = kTokens, .max_logit_rows = kTokens}).value());
      const auto state =
          std::move(backend.make_state(test.program.layout(), {.slots = 1, .blocks = 4}).value());
      TestTimeline timeline(*executable, *state, {0, 1, 2, 3}, 0);
      std::vector<float> all;
      for (int at = 0; at < kTokens; at += chunk) {
        const int rows = std::min(chunk, kTokens - at), loose = chunk == 4 ? rows - 1 : 0;
        const std::vector<float> some =
            timeline.step({tokens.begin() + at, tokens.begin() + at + rows}, rows - loose);
        timeline.keep(rows - loose, loose);
        all.insert(all.end(), some.begin(), some.end());
      }
      return all;
    };
    const std::vector<float> expected = run(*reference, kTokens), got = run(*backend_, kTokens);
    EXPECT_LT(difference(got, expected), 0.05) << "8-bit activations: up to 0.2";
    for (const int chunk : {4, 17}) EXPECT_TRUE(run(*backend_, chunk) == got) << "by " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaHalf, testing::ValuesIn(cuda_devices()),
                         [](const auto& device) { return device.param == "auto" ? "gpu" : device.param; });

/// The kernels for Hopper have the bits of the general ones (above: those of the definition).
TEST(CudaHalfArithmetic, KernelsForHopperHaveTheBitsOfTheGeneralKernels) {
#if FORETOKEN_EMULATES_CUDA
  cuda::offer_emulated_device();
  const auto general = std::move(cuda_on(cuda::kEmulatedDevice, 16, 16).value());
  const auto hopper = std::move(cuda::make_backend_on(cuda::emulated_hopper(), 16, 16).value());
  RandomWeights random(5);
  struct Kind {
    int bits, group;
    Format scales;
    std::vector<int> inputs = {320};
  };
  for (const auto& [bits, group, scales, widths] :
       {Kind{4, 64, Format::kBf16, {192, 640}},  // slices without a group; unequal slices
        Kind{4, 64, Format::kF16}, Kind{4, 32, Format::kF16}, Kind{8, 64, Format::kBf16},
        Kind{8, 32, Format::kF32}}) {
    for (const int inputs : widths) {
      const auto weight = [&, bits = bits, group = group, scales = scales](int outputs, int cols) {
        return random.affine(outputs, cols, bits, group, scales);
      };
      Program program;
      const Row in = program.input(inputs);
      const Row normed = program.norm(in, random.plain(Format::kBf16, 1, inputs, 0.3F, 1), 1e-6F);
      const Row inner = part(program, program.linear(normed, {weight(200, inputs)})[0], 0, 192);
      program.capture("out", program.add(program.linear(inner, {weight(inputs, 192)})[0], in));
      const std::vector<float> rows = random_rows(random, 70, inputs);
      const std::vector<float> expected = captured_rows(*general, program, rows, inputs, 70);
      for (const int chunk : {70, 33, 16, 8, 3, 2, 1}) {
        EXPECT_TRUE(captured_rows(*hopper, program, rows, inputs, chunk) == expected)
            << bits << " bits, group " << group << ", " << inputs << " inputs by " << chunk;
      }
    }
  }
#else
  GTEST_SKIP() << "needs the emulated device";
#endif
}

TEST(CudaHalfArithmetic, HasItsOwnName) {
#if FORETOKEN_EMULATES_CUDA
  cuda::offer_emulated_device();
  const auto half = std::move(cuda_on(cuda::kEmulatedDevice, 16, 16).value());
  const auto byte = std::move(cuda_on(cuda::kEmulatedDevice).value());
  EXPECT_NE(half->arithmetic(), byte->arithmetic());
  EXPECT_NE(half->arithmetic().find("16-bit activations, sums of sm_80"), std::string::npos);
  EXPECT_NE(half->describe().find("16-bit activations"), std::string::npos);
#else
  GTEST_SKIP() << "needs the emulated device";
#endif
}

// ---- the model of the matrix unit ----

TEST(CudaMatrixSum, CutsAfterTwentyFiveBitsBelowTheLargestExponent) {
  std::vector<cuda::HalfTerm> left(16), right(16);
  const auto set = [&](std::size_t k, float a, float b) {
    left[k] = cuda::half_term(format::float_to_f16(a)), right[k] = cuda::half_term(format::float_to_f16(b));
  };
  const auto sum = [&](float addend) { return cuda::matrix_sum(addend, left.data(), right.data()); };
  EXPECT_EQ(sum(0), 0);
  EXPECT_EQ(sum(-3.25F), -3.25F);
  set(0, 3, 5), set(7, -2, 4);
  EXPECT_EQ(sum(0.5F), 7.5F);
  set(0, 1, 1), set(7, 0x1p-12F, 0x1p-13F);
  EXPECT_EQ(sum(-1), 0x1p-25F) << "the last bit that counts";
  set(7, 0x1p-13F, 0x1p-13F);
  EXPECT_EQ(sum(-1), 0) << "cut, not rounded";
  set(7, -0x1p-12F, 0x1p-13F);
  EXPECT_EQ(sum(0), 0x1.fffffep-1F) << "towards zero, also when it is made a float";
}

}  // namespace
}  // namespace ft::cuda_half_test
