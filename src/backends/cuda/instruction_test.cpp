// Each instruction alone against the reference, on random rows of sizes that are multiples of nothing, and
// whole programs: whatever way the rows are cut into steps, they have the same bits.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "backends/cuda/on_cuda_device_test.h"
#include "backends/instruction_programs.h"
#include "backends/ref/backend.h"
#include "backends/test_programs.h"
#include "backends/test_row_source.h"
#include "backends/test_timeline.h"

namespace ft::cuda_instruction_test {
namespace {

class CudaInstruction : public OnCudaDevice {
 protected:
  enum class Family { kQwen, kGemma, kMixture, kTower };
  void expect_any_chunk(Family family);
};

/// Biases and the clamped activation with a limit that many values are beyond.
void add_biases(MoeMlp& experts, RandomWeights& random) {
  const auto count = static_cast<std::int64_t>(experts.gate.size());
  experts.gate_bias = random.plain(Format::kBf16, count, experts.size(), 0.5F);
  experts.up_bias = random.plain(Format::kF32, count, experts.size(), 0.5F);
  experts.down_bias = random.plain(Format::kBf16, count, experts.out_width(), 0.5F);
  experts.activation = Activation::kClampedSwiglu, experts.limit = 0.8F;
}

TEST_P(CudaInstruction, NormsAndWhatGoesElementByElement) {
  for (const int width : {16, 37, 320, 5000}) {
    Program program;
    const Row in = program.input(width);
    const Row norm = program.norm(in, random_.plain(Format::kBf16, 1, width, 0.3F, 1), 1e-6F);
    program.capture("out", norm);
    expect_like_the_reference(program, width, 1e-6, "norm");
  }
  for (int kind = 0; kind < 4; ++kind) {
    Program program;
    const Row in = program.input(75), a = part(program, in, 0, 40), b = part(program, in, 35, 40);
    program.capture("out", kind == 0   ? program.swiglu(a, b)
                           : kind == 1 ? program.geglu(a, b)
                           : kind == 2 ? program.add(a, b)
                                       : program.concat(a, b));
    expect_like_the_reference(program, 75, 1e-6, "pair");
  }
  Program program;
  const Row in = program.input(120), a = part(program, in, 0, 60), b = part(program, in, 60, 60);
  program.capture("out", program.gated_norm(a, b, random_.plain(Format::kF32, 1, 20, 0.3F, 1), 1e-6F));
  expect_like_the_reference(program, 120, 1e-6, "gated norm");
}

TEST_P(CudaInstruction, NormsWithoutAWeightSlicesAndScales) {
  Program program;
  const Row norm = program.norm(program.input(75), {}, 1e-6F);
  program.capture("out", program.append(Scale{program.append(Slice{norm, 13, 50, {}}), 0.3F, {}}));
  expect_like_the_reference(program, 75, 1e-6, "norm, slice, scale");
}

TEST_P(CudaInstruction, NormsWithAMeanBiasesAndGelu) {
  for (const int width : {16, 75, 1152}) {
    Program program;
    const Row norm = program.layer_norm(program.input(width), random_.plain(Format::kBf16, 1, width, 0.3F, 1),
                                        random_.plain(Format::kF32, 1, width, 0.5F), 1e-6F);
    const Row moved = program.bias(norm, random_.plain(Format::kBf16, 1, width, 0.3F));
    program.capture("out", program.concat(program.gelu(moved, false), program.gelu(moved, true)));
    expect_like_the_reference(program, width, 1e-6, "norm with a mean, bias, gelu");
  }
}

/// Experts in each format, of widths that suit no tile; rows that share experts and rows that do not.
TEST_P(CudaInstruction, MixturesOfExperts) {
  struct Kind {
    int experts, chosen, width, size, bits;  // bits 0: plain; -4: mxfp4
    bool gemma;
    bool clamped = false;  // with biases
  };
  for (const Kind& kind : {Kind{11, 3, 96, 40, 0, true}, Kind{40, 8, 128, 64, 4, false},
                           Kind{3, 2, 192, 128, 8, true}, Kind{5, 1, 64, 50, 4, false},
                           Kind{9, 4, 96, 50, 0, false, true}, Kind{40, 4, 128, 64, 4, false, true},
                           Kind{12, 4, 288, 96, -4, false, true}, Kind{5, 2, 64, 32, -4, false}}) {
    Program program;
    const Row in = program.input(kind.width + kind.experts + 1), x = part(program, in, 0, kind.width);
    TopKRouter route{part(program, in, kind.width, kind.experts), kind.chosen, !kind.gemma, {}, {}};
    if (kind.gemma) route.scale = random_.plain(Format::kBf16, 1, kind.experts, 0.5F, 1);
    MoeMlp experts;
    experts.in = x, experts.routes = program.append(route);
    experts.activation = kind.gemma ? Activation::kGeluTanh : Activation::kSilu;
    const auto matrix = [&](int rows, int cols, bool affine) {
      if (kind.bits < 0) return random_.block_float(Format::kMxfp4, rows, cols);
      return affine ? random_.affine(rows, cols, kind.bits, cols % 64 == 0 ? 64 : 32)
                    : random_.plain(Format::kBf16, rows, cols, 0.2F);
    };
    for (int e = 0; e < kind.experts; ++e) {
      experts.gate.push_back(matrix(kind.size, kind.width, kind.bits > 0));
      experts.up.push_back(matrix(kind.size, kind.width, kind.bits > 0 && kind.experts != 3));
      experts.down.push_back(matrix(kind.width, kind.size, kind.bits > 0 && kind.size % 32 == 0));
    }
    if (kind.clamped) add_biases(experts, random_);
    const Row gate = part(program, in, kind.width + kind.experts, 1),
              out = program.append(std::move(experts));
    program.capture("out", kind.clamped ? program.add(x, out) : program.append(SigmoidGate{out, gate, {}}));
    expect_like_the_reference(program, in.width, kind.bits == 0 ? 1e-5 : 0.03, "experts");
  }
}

/// Experts as a layer of a model has them: up to four rows take three launches for all of it, with the bits
/// of more rows, whichever of its parts there are.
TEST_P(CudaInstruction, AMixtureOfFewRowsHasTheBitsOfManyRows) {
  struct Kind {
    int experts, chosen, hidden, size, shared;  // shared 0: no expert that every row passes
    bool gemma;
  };
  for (const Kind& kind : {Kind{24, 8, 128, 64, 128, false}, Kind{40, 3, 192, 192, 64, false},
                           Kind{300, 5, 128, 64, 0, true}, Kind{9, 2, 704, 128, 0, true}}) {
    Program program;
    const Row in = program.input(kind.hidden);
    const Row x = program.norm(in, random_.plain(Format::kBf16, 1, kind.hidden, 0.3F, 1), 1e-6F);
    const auto affine = [&](int rows, int cols) { return random_.affine(rows, cols, 4, 64); };
    std::vector<Weight> weights = {random_.plain(Format::kBf16, kind.experts, kind.hidden, 0.2F)};
    if (kind.shared > 0) {
      weights.insert(weights.end(), {affine(kind.shared, kind.hidden), affine(kind.shared, kind.hidden),
                                     random_.plain(Format::kBf16, 1, kind.hidden, 0.2F)});
    }
    const std::vector<Row> rows = program.linear(x, weights);
    const Row inner = kind.shared > 0 ? program.swiglu(rows[1], rows[2]) : Row{};
    TopKRouter route{rows[0], kind.chosen, !kind.gemma, {}, {}};
    if (kind.gemma) route.scale = random_.plain(Format::kBf16, 1, kind.experts, 0.5F, 1);
    MoeMlp experts;
    experts.in = x, experts.routes = program.append(route);
    experts.activation = kind.gemma ? Activation::kGeluTanh : Activation::kSilu;
    for (int e = 0; e < kind.experts; ++e) {
      experts.gate.push_back(affine(kind.size, kind.hidden));
      experts.up.push_back(affine(kind.size, kind.hidden));
      experts.down.push_back(affine(kind.hidden, kind.size));
    }
    Row out;
    if (kind.shared > 0) {
      const Row everyone = program.linear(inner, {affine(kind.hidden, kind.shared)})[0];
      out = program.append(std::move(experts));
      out = program.add(in, program.add(out, program.append(SigmoidGate{everyone, rows[3], {}})));
    } else {
      out = program.append(std::move(experts));
      if (kind.experts > 256) out = program.add(in, out);
    }
    program.capture("out", out);
    const std::vector<float> given = random_rows(random_, 20, kind.hidden);
    const auto reference = make_ref_backend();
    const std::vector<float> expected = captured_rows(*reference, program, given, kind.hidden, 20);
    const std::vector<float> many = captured_rows(*backend_, program, given, kind.hidden, 20);
    EXPECT_LT(difference(many, expected), 0.03) << kind.hidden;
    for (const int chunk : {1, 2, 3, 4, 9}) {
      const std::vector<float> few = captured_rows(*backend_, program, given, kind.hidden, chunk);
      const auto differs = std::ranges::mismatch(few, many).in1 - few.begin();
      EXPECT_EQ(differs, std::ssize(many)) << kind.hidden << " by " << chunk;
    }
  }
}

/// More experts than a block has threads; with sigmoids the bias decides the choice alone.
TEST_P(CudaInstruction, RoutesOfManyExperts) {
  for (const int experts : {7, 256, 512, 513}) {
    for (const bool by_sigmoid : {true, false}) {
      Program program;
      const Row in = program.input(experts);
      TopKRouter route{in, std::min(experts, 10), experts != 512, {}};
      if (by_sigmoid) {
        route.score = RouterScore::kSigmoid, route.factor = 2.5F;
        if (experts != 256) route.selection_bias = random_.plain(Format::kF32, 1, experts, 0.5F, 1);
      }
      program.capture("out", program.append(route));
      std::vector<float> rows = random_rows(random_, kRows, experts);
      if (experts == 513) rows[3] = std::numeric_limits<float>::quiet_NaN();
      const auto reference = make_ref_backend();
      const std::vector<float> expected = captured_rows(*reference, program, rows, experts, kRows);
      EXPECT_LT(difference(captured_rows(*backend_, program, rows, experts, kRows), expected), 1e-6)
          << experts;
    }
  }
}

/// Equal scores: the lowest index first; NaN last.
TEST_P(CudaInstruction, RoutesOfEqualScores) {
  constexpr int kExperts = 37, kChosen = 6;
  Program program;
  const Row in = program.input(kExperts);
  program.capture("out", program.append(TopKRouter{in, kChosen, true, {}, {}}));
  std::vector<float> rows(static_cast<std::size_t>(kRows * kExperts));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(random_.below(4)) - 2.0F;
  for (std::size_t i = 5; i < rows.size(); i += 41) rows[i] = -0.0F;
  for (std::size_t i = 7; i < rows.size(); i += 53) rows[i] = std::numeric_limits<float>::quiet_NaN();
  const auto reference = make_ref_backend();
  const std::vector<float> expected = captured_rows(*reference, program, rows, kExperts, kRows);
  const std::vector<float> got = captured_rows(*backend_, program, rows, kExperts, kRows);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i / kChosen % 2 == 0)
      EXPECT_EQ(got[i], expected[i]) << "expert " << i;
    else
      EXPECT_NEAR(got[i], expected[i], 1e-6F) << "weight " << i;
  }
}

TEST_P(CudaInstruction, InputsOfSeveralWidthsTakeTheirOwnRows) {
  Program program;
  const Row wide = program.input(64), narrow = program.input(16);
  program.capture("out", program.concat(wide, narrow));
  const std::vector<float> rows = random_rows(random_, kRows, 64);
  const auto reference = make_ref_backend();
  EXPECT_EQ(captured_rows(*backend_, program, rows, 64, kRows),
            captured_rows(*reference, program, rows, 64, kRows));
}

TEST_P(CudaInstruction, LinearsOfEveryFormat) {
  const auto expect = [&](const std::vector<Weight>& weights, double tolerance, const char* what) {
    expect_like_the_reference(linear_program(weights), tolerance, what);
  };
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {16, 32, 64, 128}) expect({random_.affine(53, 640, bits, group)}, 0.01, "affine");
  }
  expect({random_.affine(53, 272, 6, 16, Format::kF32)}, 0.01, "groups of 16");
  const Weight stored = random_.affine(40, 96, 5, 32, Format::kF16);
  expect({with_source(stored), rows_of(with_source(stored), 3, 37, "part")}, 0.01, "rows made on demand");
  expect({random_.affine(32, 1024, 4, 64, Format::kF16), random_.affine(48, 1024, 4, 64, Format::kF16)}, 0.01,
         "two");
  expect({random_.affine(32, 1024, 8, 64, Format::kF32), random_.plain(Format::kBf16, 20, 1024, 1)}, 0.01,
         "mixed");
  for (const Format format : {Format::kBf16, Format::kF16, Format::kF32}) {
    for (const int cols : {1, 17, 255, 600}) expect({random_.plain(format, 33, cols, 1)}, 1e-6, "plain");
  }
  for (const Format format : {Format::kMxfp8, Format::kNvfp4})
    expect({random_.block_float(format, 33, 288)}, 1e-6, "block floats");
  for (const int cols : {32, 288, 960})
    expect({random_.block_float(Format::kMxfp4, 53, cols)}, 0.01, "mxfp4");
  expect({random_.block_float(Format::kMxfp4, 33, 288), random_.affine(48, 288, 4, 32)}, 0.01,
         "kinds of one width and group");
}

/// Codes in groups of 32 and in groups of 16, as of a Q4_K_M file, so the norm may not leave only one kind in
/// place of its row.
TEST_P(CudaInstruction, ANormBeforeGroupsOf32And16KeepsItsRow) {
  for (const bool short_first : {false, true}) {
    Program program;
    const Row norm = program.norm(program.input(288), random_.plain(Format::kBf16, 1, 288, 0.3F, 1), 1e-6F);
    std::vector<Weight> weights = {random_.affine(48, 288, 4, 32, Format::kF32),
                                   random_.affine(53, 288, 6, 16, Format::kF32)};
    if (short_first) std::ranges::reverse(weights);
    const std::vector<Row> outs = program.linear(norm, weights);
    program.capture("out", program.concat(outs[0], outs[1]));
    expect_like_the_reference(program, 288, 0.01, "a norm before groups of 32 and 16");
  }
}

/// Many tiles a block, so that rings and buffers of sums go round: few rows have the bits of many.
TEST_P(CudaInstruction, LargeLinearsHaveTheSameBitsForAnyNumberOfRows) {
  if (GetParam() == "emulated") GTEST_SKIP() << "too slow there";
  for (const auto& [outputs, inputs] :
       {std::pair{16480, 1024}, std::pair{34816, 5120}, std::pair{5120, 17408}, std::pair{5120, 6144},
        std::pair{3584 * 2, 1024}, std::pair{1024, 3584}, std::pair{9001, 2560}, std::pair{200, 512},
        std::pair{43008, 5376}, std::pair{5376, 8192}, std::pair{4224, 2816}, std::pair{2816, 2112},
        std::pair{3001, 960}, std::pair{300, 320}}) {
    Program program;
    const Row in = program.input(inputs);
    program.capture("out", program.linear(in, {random_.affine(outputs, inputs, 4, 64)})[0]);
    const std::vector<float> rows = random_rows(random_, kRows, inputs);
    const std::vector<float> expected = captured_rows(*backend_, program, rows, inputs, 35);
    for (const int chunk : {1, 2, 3, 4, 7, 8, 9, 11, 16, 17, 24, 25, 32, 64, 65}) {
      const std::vector<float> got = captured_rows(*backend_, program, rows, inputs, chunk);
      std::size_t differ = 0;
      for (std::size_t i = 0; i < got.size(); ++i) differ += got[i] != expected[i];
      EXPECT_EQ(differ, 0U) << outputs << "x" << inputs << " by " << chunk;
    }
  }
}

/// Prompts: products of other instructions, blocks of 64, 80 and 96 rows, outputs that fill no block.
TEST_P(CudaInstruction, LinearsOfPromptsHaveTheBitsOfFewRows) {
  if (GetParam() == "emulated") GTEST_SKIP() << "too slow there";
  struct Shape {
    int outputs, inputs, rows;
  };
  for (const Shape& shape :
       {Shape{33000, 512, 64}, Shape{34816, 512, 70}, Shape{16480, 1024, 257}, Shape{5120, 17408, 512},
        Shape{5130, 6144, 515}, Shape{14336, 704, 300}, Shape{43008, 5376, 257}, Shape{8192, 2816, 65}}) {
    Program program;
    const Row in = program.input(shape.inputs);
    const Row out = program.linear(in, {random_.affine(shape.outputs, shape.inputs, 4, 64)})[0];
    program.capture("out", program.append(Scale{out, 1, {}}));
    const std::vector<float> rows = random_rows(random_, shape.rows, shape.inputs);
    const std::vector<float> expected = captured_rows(*backend_, program, rows, shape.inputs, 8);
    for (const int chunk : {17, 40, shape.rows}) {
      const std::vector<float> got = captured_rows(*backend_, program, rows, shape.inputs, chunk);
      std::size_t differ = 0;
      for (std::size_t i = 0; i < got.size(); ++i) differ += got[i] != expected[i];
      EXPECT_EQ(differ, 0U) << shape.outputs << "x" << shape.inputs << " by " << chunk;
    }
  }
}

/// Matrices of several names and shapes may begin at one address, as random ones of benchmarks do.
TEST_P(CudaInstruction, WeightsAreToldApartByMoreThanTheirAddress) {
  expect_like_the_reference(two_of_one_address(random_), 0.01, "two of one address");
}

TEST_P(CudaInstruction, AnMlpWhoseStepsAreJoined) {
  for (const int hidden : {512, 1024, 2560}) {
    if (GetParam() == "emulated" && hidden > 512) continue;  // slow
    Program program;
    const Row in = program.input(hidden);
    const int mlp = hidden == 2560 ? 3584 : 1536;
    const Row norm = program.norm(in, random_.plain(Format::kBf16, 1, hidden, 0.3F, 1), 1e-6F);
    const std::vector<Row> both =
        program.linear(norm, {random_.affine(mlp, hidden, 4, 64), random_.affine(mlp, hidden, 4, 64)});
    const Row down =
        program.linear(program.swiglu(both[0], both[1]), {random_.affine(hidden, mlp, 4, 64)})[0];
    const Row sum = program.add(in, down);
    const Row gated = program.gated_norm(sum, in, random_.plain(Format::kF32, 1, 128, 0.3F, 1), 1e-6F);
    program.capture("out", program.linear(gated, {random_.affine(100, hidden, 4, 64)})[0]);
    expect_like_the_reference(program, hidden, 0.03, "mlp");
  }
}

TEST_P(CudaInstruction, ConvolutionAndDeltaRule) {
  for (const DeltaShape& shape : {DeltaShape{}, DeltaShape::odd()}) {
    expect_like_the_reference(conv_program(random_, shape), 1e-6, "conv");
    expect_like_the_reference(delta_program(random_, shape), 1e-5, "delta rule");
  }
}

/// Steps of at most 16 rows take one launch for all of it, longer ones a launch for each: the same bits, with
/// rows that are replayed too.
TEST_P(CudaInstruction, TheRecurrentPartOfALayerInOneLaunch) {
  const DeltaShape shape{.value_dim = 128, .key_heads = 1, .value_heads = 2};
  expect_like_the_reference(recurrent_program(random_, shape, 20), 0.03, "recurrent part");
  if (GetParam() == "emulated") return;  // slow
  const DeltaShape large{.value_dim = 128, .key_heads = 16, .value_heads = 48};
  expect_like_the_reference(recurrent_program(random_, large, 5120), 0.03, "recurrent part of a 27B");
}

TEST_P(CudaInstruction, Attention) {
  for (const AttendShape& shape :
       {AttendShape{6, 2, 40, 6, 0, true, true}, AttendShape{12, 1, 64, 64, 0, true, true},
        AttendShape{4, 2, 256, 64, 0, true, true}}) {
    const bool slow = GetParam() == "emulated" && shape.head_dim == 256;
    expect_like_the_reference(attend_program(random_, shape), 5e-4, "attend", !slow);
  }
}

/// Windows, heads of 512, normalised values and no rotation; over all rows of a segment, later ones too.
TEST_P(CudaInstruction, AttentionOfOtherKinds) {
  for (AttendShape shape :
       {AttendShape{4, 2, 40, 0, 21, true, false}, AttendShape{2, 1, 512, 0, 0, true, false},
        AttendShape{2, 1, 64, 0, 0, false, false}, AttendShape{8, 2, 64, 64, 21, true, false, 1, true},
        AttendShape{.sinks = true}, AttendShape{.rotary = 8, .gain_span = 7}}) {
    shape.scale = 0.5F;
    expect_like_the_reference(attend_program(random_, shape), 5e-4, "attend", shape.causal);
  }
}

TEST_P(CudaInstruction, WholeProgramsAgreeWithTheReference) {
  TestShape plain = TestShape::odd();
  plain.bits = 0;
  TestShape recurrent = plain;
  recurrent.attention = false;
  TestShape widened = TestShape::widened();
  TestShape mixture = TestShape::mixture(), vision = TestShape::vision(),
            clamped = TestShape::clamped_mixture();
  widened.bits = mixture.bits = vision.bits = clamped.bits = 0;
  for (const TestShape& shape : {TestShape{}, TestShape::odd(), plain, recurrent, widened,
                                 TestShape::shared(), mixture, vision, clamped}) {
    const TestProgram test(shape, 1);
    const auto reference = make_ref_backend();
    std::vector<std::vector<float>> logits;
    for (Backend* backend : {reference.get(), backend_.get()}) {
      const auto executable =
          std::move(backend->compile(test.program, {.max_rows = 96, .max_logit_rows = 96}).value());
      const auto state =
          std::move(backend->make_state(test.program.layout(), {.slots = 1, .blocks = 4}).value());
      TestTimeline timeline(*executable, *state, {0, 1, 2, 3}, 0);
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 40; ++i) tokens.push_back(i * 31 % shape.vocabulary);
      logits.push_back(timeline.step(tokens, 40));
    }
    double squares = 0, errors = 0;
    for (std::size_t i = 0; i < logits[0].size(); ++i) {
      squares += logits[0][i] * static_cast<double>(logits[0][i]);
      errors += std::pow(logits[1][i] - static_cast<double>(logits[0][i]), 2);
    }
    // 8-bit activations, whose errors these layers amplify; without them everything is float32.
    EXPECT_LT(std::sqrt(errors / squares),
              shape.bits == 0 ? shape.attention ? 2e-3 * shape.layers : 2e-5 : 0.2);
  }
}

/// The shapes of a real model (small on the emulated device), every matrix of one format: rows in any chunk,
/// beyond the first split of the cache.
TEST_P(CudaInstruction, RealShapesHaveTheSameBitsInAnyChunk) {
  for (const Family family : {Family::kQwen, Family::kGemma, Family::kMixture, Family::kTower})
    expect_any_chunk(family);
}

void CudaInstruction::expect_any_chunk(Family family) {
  const bool small = GetParam() == "emulated";
  TestShape shape;
  shape.alike = true, shape.layers = 1;
  if (family == Family::kGemma)
    shape.layers = 2, shape.window = small ? 9 : 150, shape.gemma = shape.shares = true;
  if (family == Family::kMixture) shape.experts = 40, shape.chosen = 8, shape.expert = 192;
  shape.tower = family == Family::kTower;
  if (!small) {
    shape.hidden = 1024, shape.vocabulary = 4096, shape.mlp = 3584;
    shape.heads = 8, shape.kv_heads = 2, shape.head_dim = 256, shape.rotary = 64;
    shape.key_heads = shape.value_heads = 16, shape.key_dim = shape.value_dim = 128;
  }
  const TestProgram test(shape, 3);
  const auto executable =
      std::move(backend_->compile(test.program, {.max_rows = 257, .max_logit_rows = 257}).value());
  const auto state =
      std::move(backend_->make_state(test.program.layout(), {.slots = 2, .blocks = 10}).value());
  const int tokens_in_all = small ? 20 : 300;
  std::vector<float> expected;
  std::vector<int> chunks = {20, 4};
  if (!small) {
    chunks = {257, 33, 64, 65};
    for (int rows = 1; rows <= 16; ++rows) chunks.push_back(rows);
  }
  for (const int chunk : chunks) {
    TestTimeline timeline(*executable, *state, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 1);
    std::vector<float> all;
    for (int at = 0; at < tokens_in_all; at += chunk) {
      const int rows = std::min(chunk, tokens_in_all - at), loose = chunk == 4 ? rows - 1 : 0;
      std::vector<std::int32_t> tokens;
      for (int i = at; i < at + rows; ++i) tokens.push_back(i * 31 % shape.vocabulary);
      const std::vector<float> logits = timeline.step(tokens, rows - loose);
      timeline.keep(rows - loose, loose);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    if (expected.empty()) expected = all;
    const auto differs = std::ranges::mismatch(all, expected).in1 - all.begin();
    EXPECT_EQ(differs, std::ssize(expected)) << "by " << chunk << ": position " << differs / shape.vocabulary;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaInstruction, testing::ValuesIn(cuda_devices()),
                         [](const auto& device) { return device.param == "auto" ? "gpu" : device.param; });

}  // namespace
}  // namespace ft::cuda_instruction_test
