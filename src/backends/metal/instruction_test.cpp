// The kernels of the metal backend on its twin: each instruction against the reference, and the row rule bit
// for bit, for every division of rows into steps and every order of a group's threads.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "backends/instruction_programs.h"
#include "backends/metal/backend.h"
#include "backends/metal/twin/fibres.h"
#include "backends/ref/backend.h"
#include "backends/test_row_source.h"

namespace ft::metal_instruction_test {
namespace {

constexpr int kRows = 40;

class MetalTwin : public testing::Test {
 protected:
  void SetUp() override { backend_ = std::move(make_metal_twin_backend({}).value()); }
  void TearDown() override { metal::set_fibre_order(0); }

  /// Against the reference, and the same bits by 1 to 16 rows and in three orders of threads.
  void expect_like_the_reference(const Program& program, int width, double tolerance, const char* what,
                                 bool in_chunks = true) {
    const std::vector<float> rows = random_rows(random_, kRows, width);
    const auto reference = make_ref_backend();
    const std::vector<float> expected = captured_rows(*reference, program, rows, width, kRows);
    const std::vector<float> got = captured_rows(*backend_, program, rows, width, kRows);
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_LT(difference(got, expected), tolerance) << what;
    for (const unsigned seed : {7U, 1234U}) {
      metal::set_fibre_order(seed);
      EXPECT_EQ(captured_rows(*backend_, program, rows, width, kRows), got)
          << what << ", order of threads " << seed;
    }
    metal::set_fibre_order(0);
    for (int chunk = 1; chunk <= 16 && in_chunks; ++chunk) {
      const std::vector<float> again =
          captured_rows(*backend_, program, rows, width, chunk, chunk % 3 == 0 ? chunk / 2 : 0);
      const auto differs = std::ranges::mismatch(again, got).in1 - again.begin();
      EXPECT_EQ(differs, std::ssize(got)) << what << " by " << chunk;
    }
  }

  void expect_like_the_reference(const InstructionProgram& made, double tolerance, const char* what,
                                 bool in_chunks = true) {
    expect_like_the_reference(made.program, made.width, tolerance, what, in_chunks);
  }

  std::unique_ptr<Backend> backend_;
  RandomWeights random_{7};
};

TEST_F(MetalTwin, NormsAndWhatGoesElementByElement) {
  for (const int width : {16, 37, 700}) {
    Program program;
    const Row in = program.input(width);
    program.capture("out", program.norm(in, random_.plain(Format::kBf16, 1, width, 0.3F, 1), 1e-6F));
    expect_like_the_reference(program, width, 1e-6, "norm");
  }
  for (int kind = 0; kind < 9; ++kind) {
    Program program;
    const Row in = program.input(75), a = part(program, in, 0, 40), b = part(program, in, 35, 40);
    Row out = program.concat(a, b);
    if (kind == 0) out = program.swiglu(a, b);
    if (kind == 1) out = program.geglu(a, b);
    if (kind == 2) out = program.add(a, b);
    if (kind == 3) out = program.gelu(a, false);
    if (kind == 4) out = program.gelu(a, true);
    if (kind == 5) out = program.bias(a, random_.plain(Format::kF16, 1, 40, 0.3F));
    if (kind == 6) out = program.append(Scale{a, 0.3F, {}});
    if (kind == 7) out = program.append(SigmoidGate{a, part(program, in, 70, 1), {}});
    program.capture("out", out);
    expect_like_the_reference(program, 75, 1e-6, "element by element");
  }
  Program gated;
  const Row in = gated.input(120), a = part(gated, in, 0, 60), b = part(gated, in, 60, 60);
  gated.capture("out", gated.gated_norm(a, b, random_.plain(Format::kF32, 1, 20, 0.3F, 1), 1e-6F));
  expect_like_the_reference(gated, 120, 1e-6, "gated norm");
  Program layer;
  const Weight weight = random_.plain(Format::kBf16, 1, 75, 0.3F, 1),
               bias = random_.plain(Format::kF32, 1, 75, 1);
  layer.capture("out", layer.layer_norm(layer.norm(layer.input(75), {}, 1e-6F), weight, bias, 1e-6F));
  expect_like_the_reference(layer, 75, 1e-6, "layer norm");
}

TEST_F(MetalTwin, LinearsOfEveryFormat) {
  const auto expect = [&](const std::vector<Weight>& weights, const char* what) {
    expect_like_the_reference(linear_program(weights), 1e-6, what);
  };
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) expect({random_.affine(37, 384, bits, group)}, "affine");
  }
  expect({random_.affine(37, 272, 6, 16, Format::kF32)}, "groups of 16");
  const Weight stored = random_.affine(40, 96, 5, 32, Format::kF16);
  expect({with_source(stored), rows_of(with_source(stored), 3, 37, "part")}, "rows made on demand");
  expect({random_.affine(32, 256, 4, 64, Format::kF16), random_.affine(48, 256, 4, 64, Format::kF16)}, "two");
  expect({random_.affine(32, 256, 8, 64, Format::kF32), random_.plain(Format::kBf16, 20, 256, 1)}, "mixed");
  for (const Format format : {Format::kBf16, Format::kF16, Format::kF32}) {
    for (const int cols : {1, 17, 300}) expect({random_.plain(format, 33, cols, 1)}, "plain");
  }
  for (const Format format : {Format::kMxfp4, Format::kMxfp8, Format::kNvfp4})
    expect({random_.block_float(format, 33, 288)}, "block floats");
}

TEST_F(MetalTwin, WeightsAreToldApartByMoreThanTheirAddress) {
  expect_like_the_reference(two_of_one_address(random_), 1e-6, "two of one address");
}

TEST_F(MetalTwin, ConvolutionAndDeltaRule) {
  for (const DeltaShape& shape : {DeltaShape{}, DeltaShape::odd()}) {
    expect_like_the_reference(conv_program(random_, shape), 1e-6, "conv");
    expect_like_the_reference(delta_program(random_, shape), 1e-5, "delta rule");
  }
}

/// Keys and values are float16 here and float32 in the reference.
TEST_F(MetalTwin, AttentionOfAllKinds) {
  for (const AttendShape& shape :
       {AttendShape{6, 2, 40, 6, 0, true, true}, AttendShape{12, 1, 64, 64, 0, true, false},
        AttendShape{4, 2, 256, 64, 0, true, true}, AttendShape{4, 2, 40, 0, 21, true, false},
        AttendShape{2, 1, 512, 0, 0, true, false}, AttendShape{2, 1, 64, 0, 0, false, false}}) {
    expect_like_the_reference(attend_program(random_, shape), 5e-4, "attend",
                              shape.causal && shape.head_dim < 256);
  }
}

/// Keys and values of 8 bits, with a scale for each head and position.
TEST_F(MetalTwin, AttentionOver8BitKeysAndValues) {
  backend_ = std::move(make_metal_twin_backend({.settings = {{"kv-bits", 8}}}).value());
  for (const AttendShape& shape :
       {AttendShape{6, 2, 40, 6, 0, true, true}, AttendShape{4, 2, 128, 64, 0, true, false},
        AttendShape{4, 2, 41, 0, 21, true, false}, AttendShape{2, 1, 512, 0, 0, true, false}}) {
    expect_like_the_reference(attend_program(random_, shape), 0.03, "attend, 8 bits", shape.head_dim < 256);
  }
}

TEST_F(MetalTwin, ExpertsAndTheirRoutes) {
  for (const bool gemma : {false, true}) {
    Program program;
    const Row in = program.input(96);
    TopKRouter route{program.linear(in, {random_.plain(Format::kBf16, 11, 96, 0.3F)})[0], 3, !gemma, {}, {}};
    if (gemma) route.scale = random_.plain(Format::kBf16, 1, 11, 0.5F, 1);
    MoeMlp experts;
    experts.in = in;
    experts.routes = program.append(route);
    if (gemma) experts.activation = Activation::kGeluTanh;
    for (int e = 0; e < 11; ++e) {
      experts.gate.push_back(random_.affine(64, 96, 4, 32));
      experts.up.push_back(random_.affine(64, 96, 4, 32));
      experts.down.push_back(random_.affine(40, 64, 4, 32));
    }
    program.capture("out", program.append(std::move(experts)));
    expect_like_the_reference(program, 96, 1e-5, "experts");
  }
}

}  // namespace
}  // namespace ft::metal_instruction_test
