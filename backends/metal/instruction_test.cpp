// The kernels of the metal backend on its twin: each instruction against the reference, and the row rule bit
// for bit, whatever way rows are cut into steps and in whatever order the threads of a group run.
#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "backends/metal/backend.h"
#include "backends/metal/twin/fibres.h"
#include "backends/ref/backend.h"
#include "backends/test_programs.h"

namespace ft {
namespace {

constexpr int kRows = 40;

class MetalTwin : public testing::Test {
 protected:
  void SetUp() override { backend_ = std::move(make_metal_twin_backend({}).value()); }
  void TearDown() override { metal::set_fibre_order(0); }

  static int captured_width(const Program& program) {
    for (const Instruction& instruction : program.instructions()) {
      if (const auto* capture = std::get_if<Capture>(&instruction)) return capture->in.width;
    }
    return 0;
  }

  /// The captured rows after steps of `chunk` rows each, the last `drafts` rows of each unsettled and kept.
  static std::vector<float> run(Backend& backend, const Program& program, const std::vector<float>& rows,
                                int width, int chunk, int drafts = 0) {
    const auto executable =
        std::move(backend.compile(program, {.max_rows = kRows, .max_logit_rows = 1}).value());
    const auto state = std::move(backend.make_state(program.layout(), {.slots = 2, .blocks = 3}).value());
    const std::vector<std::int32_t> blocks = {2, 0, 1};
    const auto store = std::move(backend.make_rows(width, kRows).value());
    store->write(0, rows);
    const int out_width = captured_width(program);
    const auto captured = std::move(backend.make_rows(out_width, kRows).value());
    std::vector<std::int32_t> places(kRows);
    std::iota(places.begin(), places.end(), 0);
    int replay = 0, tape = 0;
    for (int at = 0; at < kRows; at += chunk) {
      const int count = std::min(chunk, kRows - at), loose = std::min(drafts, count - 1);
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 0);
      const Segment segment{{blocks, 1, replay, tape}, at, count, count - loose};
      StepArgs args;
      args.tokens = tokens;
      const auto here =
          std::span<const std::int32_t>(places).subspan(static_cast<std::size_t>(at), tokens.size());
      args.hidden = {store.get(), here};
      args.capture = {captured.get(), here};
      args.segments = {&segment, 1};
      executable->run(args, *state);
      replay = loose, tape = 1 - tape;
    }
    std::vector<float> all(static_cast<std::size_t>(kRows * out_width));
    captured->read(0, all);
    return all;
  }

  std::vector<float> random_rows(int width) {
    std::vector<float> rows(static_cast<std::size_t>(kRows * width));
    for (float& value : rows) value = random_.uniform() * std::exp(2 * random_.uniform());
    return rows;
  }

  static double difference(const std::vector<float>& got, const std::vector<float>& expected) {
    double squares = 0, errors = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      squares += expected[i] * static_cast<double>(expected[i]);
      errors += std::pow(got[i] - static_cast<double>(expected[i]), 2);
    }
    return std::sqrt(errors / squares);
  }

  /// Against the reference, and the same bits by 1 to 16 rows and in three orders of threads.
  void expect_like_the_reference(const Program& program, int width, double tolerance, const char* what,
                                 bool in_chunks = true) {
    const std::vector<float> rows = random_rows(width);
    const auto reference = make_ref_backend();
    const std::vector<float> expected = run(*reference, program, rows, width, kRows);
    const std::vector<float> got = run(*backend_, program, rows, width, kRows);
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_LT(difference(got, expected), tolerance) << what;
    for (const unsigned seed : {7U, 1234U}) {
      metal::set_fibre_order(seed);
      EXPECT_EQ(run(*backend_, program, rows, width, kRows), got) << what << ", order of threads " << seed;
    }
    metal::set_fibre_order(0);
    for (int chunk = 1; chunk <= 16 && in_chunks; ++chunk) {
      const std::vector<float> again =
          run(*backend_, program, rows, width, chunk, chunk % 3 == 0 ? chunk / 2 : 0);
      const auto differs = std::ranges::mismatch(again, got).in1 - again.begin();
      EXPECT_EQ(differs, std::ssize(got)) << what << " by " << chunk;
    }
  }

  /// A part of a row, by a matrix that picks columns.
  Row part(Program& program, Row in, int first, int width) {
    return program.append(Slice{in, first, width, {}});
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
    const int width = static_cast<int>(weights[0].cols);
    Program program;
    const std::vector<Row> outs = program.linear(program.input(width), weights);
    program.capture("out", outs.size() > 1 ? program.concat(outs[0], outs[1]) : outs[0]);
    expect_like_the_reference(program, width, 1e-6, what);
  };
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) expect({random_.affine(37, 384, bits, group)}, "affine");
  }
  expect({random_.affine(32, 256, 4, 64, Format::kF16), random_.affine(48, 256, 4, 64, Format::kF16)}, "two");
  expect({random_.affine(32, 256, 8, 64, Format::kF32), random_.plain(Format::kBf16, 20, 256, 1)}, "mixed");
  for (const Format format : {Format::kBf16, Format::kF16, Format::kF32}) {
    for (const int cols : {1, 17, 300}) expect({random_.plain(format, 33, cols, 1)}, "plain");
  }
  for (const Format format : {Format::kMxfp4, Format::kMxfp8, Format::kNvfp4})
    expect({random_.block_float(format, 33, 288)}, "block floats");
}

TEST_F(MetalTwin, WeightsAreToldApartByMoreThanTheirAddress) {
  const Weight wide = random_.affine(64, 256, 4, 64);
  Weight narrow = wide;
  narrow.name = "narrow", narrow.cols = 128;
  Program program;
  const Row in = program.input(256);
  program.capture("out", program.concat(program.linear(in, {wide})[0],
                                        program.linear(part(program, in, 0, 128), {narrow})[0]));
  expect_like_the_reference(program, 256, 1e-6, "two of one address");
}

TEST_F(MetalTwin, ConvolutionAndDeltaRule) {
  for (const bool odd : {false, true}) {
    const int kernel_width = odd ? 3 : 4, key_heads = 2, value_heads = 4, key_dim = odd ? 20 : 128,
              value_dim = odd ? 41 : 64;
    const int width = 2 * key_heads * key_dim + value_heads * value_dim;
    Program convolution;
    convolution.capture("out", convolution.conv(convolution.input(width),
                                                random_.plain(Format::kBf16, width, kernel_width, 0.8F)));
    expect_like_the_reference(convolution, width, 1e-6, "conv");
    Program program;
    const Row in = program.input(width + 2 * value_heads);
    DeltaRule delta;
    delta.in = part(program, in, 0, width);
    delta.a = part(program, in, width, value_heads);
    delta.b = part(program, in, width + value_heads, value_heads);
    delta.a_log = random_.plain(Format::kF32, 1, value_heads, 1);
    delta.dt_bias = random_.plain(Format::kF32, 1, value_heads, 1);
    delta.key_heads = key_heads, delta.value_heads = value_heads;
    delta.key_dim = key_dim, delta.value_dim = value_dim;
    program.capture("out", program.delta_rule(delta));
    expect_like_the_reference(program, width + 2 * value_heads, 1e-5, "delta rule");
  }
}

/// Keys and values are float16 here and float32 in the reference.
TEST_F(MetalTwin, AttentionOfAllKinds) {
  struct Kind {
    int heads, kv_heads, head_dim, rotary, window;
    bool causal, gated;
  };
  for (const Kind& kind : {Kind{6, 2, 40, 6, 0, true, true}, Kind{12, 1, 64, 64, 0, true, false},
                           Kind{4, 2, 256, 64, 0, true, true}, Kind{4, 2, 40, 0, 21, true, false},
                           Kind{2, 1, 512, 0, 0, true, false}, Kind{2, 1, 64, 0, 0, false, false}}) {
    Program program;
    const int q = (kind.gated ? 2 : 1) * kind.heads * kind.head_dim, kv = kind.kv_heads * kind.head_dim;
    const Row in = program.input(q + 2 * kv);
    Attend attend;
    attend.q = part(program, in, 0, q), attend.k = part(program, in, q, kv);
    attend.v = part(program, in, q + kv, kv);
    if (kind.rotary > 0) attend.q_norm = random_.plain(Format::kF32, 1, kind.head_dim, 0.2F, 1);
    attend.k_norm = random_.plain(Format::kF16, 1, kind.head_dim, 0.2F, 1);
    attend.heads = kind.heads, attend.kv_heads = kind.kv_heads, attend.head_dim = kind.head_dim;
    attend.rotary = kind.rotary, attend.window = kind.window, attend.v_norm = kind.window > 0;
    attend.causal = kind.causal, attend.gated = kind.gated;
    for (int j = 0; j < kind.rotary / 2; ++j)
      attend.inverse_frequencies.push_back(
          std::pow(1e4F, -2.0F * static_cast<float>(j) / static_cast<float>(kind.rotary)));
    attend.eps = 1e-6F, attend.scale = 1 / std::sqrt(static_cast<float>(kind.head_dim));
    program.capture("out", program.attend(attend));
    expect_like_the_reference(program, q + 2 * kv, 5e-4, "attend", kind.causal && kind.head_dim < 256);
  }
}

TEST_F(MetalTwin, ExpertsAndTheirRoutes) {
  for (const bool gemma : {false, true}) {
    Program program;
    const Row in = program.input(96);
    Route route{program.linear(in, {random_.plain(Format::kBf16, 11, 96, 0.3F)})[0], 3, !gemma, {}, {}};
    if (gemma) route.scale = random_.plain(Format::kBf16, 1, 11, 0.5F, 1);
    Experts experts;
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
}  // namespace ft
