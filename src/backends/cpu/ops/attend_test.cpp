// Attention alone, compared with its definition in doubles. float16 or 8-bit codes represent the keys and
// values exactly. Covers every place in a block, every number of queries and every instruction set.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "backends/cpu/kernels/features.h"
#include "backends/random_weights.h"
#include "backends/registry.h"
#include "backends/test_rows.h"
#include "backends/test_timeline.h"

namespace ft::attend_test {
namespace {

constexpr int kPositions = 75;

constexpr float kGains[] = {1, 1.5F, 0.25F, 2};  // the last one holds for the rest

enum class Sinks { kNone, kMixed, kBelow, kAbove };  // the scores; mixed: some above, some below

struct AttendShape {
  int heads = 6, kv_heads = 2, head_dim = 40;
  bool gated = true;
  int window = 0;
  bool causal = true;
  Sinks sinks = Sinks::kNone;
  int gain_span = 0;  // positions of each of kGains; 0: no gains

  int query_width() const { return heads * head_dim * (gated ? 2 : 1); }
  int kv_width() const { return kv_heads * head_dim; }
  int width() const { return query_width() + 2 * kv_width(); }
};

/// Rows [first, first + rows) of a unit matrix of `cols` columns; the product picks columns of its input,
/// exactly.
Weight picks(RandomWeights& random, int first, int rows, int cols) {
  Weight weight = random.plain(Format::kF32, rows, cols, 0);
  auto* values = reinterpret_cast<float*>(const_cast<std::byte*>(weight.data));
  for (int r = 0; r < rows; ++r) values[r * cols + first + r] = 1;
  return weight;
}

float sink_of(const AttendShape& shape, int head) {
  if (shape.sinks == Sinks::kBelow) return -std::numeric_limits<float>::infinity();
  return shape.sinks == Sinks::kAbove ? 1e4F : 9 * static_cast<float>(head % 3) - 7;
}

Program attention(const AttendShape& shape, RandomWeights& random) {
  Program program;
  const Row in = program.input(shape.width());
  const int queries = shape.query_width();
  Attention attend;
  attend.q = program.append(Slice{in, 0, queries, {}});
  attend.k = program.append(Slice{in, queries, shape.kv_width(), {}});
  attend.v = program.append(Slice{in, queries + shape.kv_width(), shape.kv_width(), {}});
  attend.heads = shape.heads, attend.kv_heads = shape.kv_heads, attend.head_dim = shape.head_dim;
  attend.eps = 1e-6F, attend.scale = 0.3F;
  attend.gated = shape.gated;
  attend.sliding_window = shape.window, attend.causal = shape.causal;
  if (shape.gain_span > 0)
    attend.gains.assign(std::begin(kGains), std::end(kGains)), attend.gain_span = shape.gain_span;
  if (shape.sinks != Sinks::kNone) {
    attend.sinks = random.plain(Format::kF32, 1, shape.heads, 0);
    auto* values = reinterpret_cast<float*>(const_cast<std::byte*>(attend.sinks.data));
    for (int head = 0; head < shape.heads; ++head) values[head] = sink_of(shape, head);
  }
  program.capture("out", program.attend(attend));
  return program;
}

/// Multiples of 1/64 below 8, which float16 represents exactly.
std::vector<float> exact_rows(RandomWeights& random, int count) {
  std::vector<float> rows(static_cast<std::size_t>(count));
  for (float& value : rows) value = std::nearbyint(random.uniform() * 300) / 64;
  return rows;
}

/// The rows with keys and values as an 8-bit cache holds them: for each position and head, whole multiples of
/// 1/127 of the largest number, ties to even.
std::vector<float> as_codes(const AttendShape& shape, std::vector<float> rows) {
  for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(shape.width())) {
    for (int head = 0; head < 2 * shape.kv_heads; ++head) {
      float* first = rows.data() + row + shape.query_width() + head * shape.head_dim;
      float most = 0;
      for (int d = 0; d < shape.head_dim; ++d) most = std::max(most, std::abs(first[d]));
      for (int d = 0; d < shape.head_dim; ++d)
        first[d] = std::nearbyint(first[d] * (127.0F / most)) * (most / 127.0F);
    }
  }
  return rows;
}

/// The output of attention head `head` at `position`.
std::vector<double> expected_head(const AttendShape& shape, const std::vector<float>& rows, int position,
                                  int head) {
  const auto at = [&](int row, int column) {
    return static_cast<double>(rows[static_cast<std::size_t>(row * shape.width() + column)]);
  };
  const int query = head * shape.head_dim * (shape.gated ? 2 : 1);
  const int key = shape.query_width() + head / (shape.heads / shape.kv_heads) * shape.head_dim;
  const int first = shape.window > 0 ? std::max(0, position + 1 - shape.window) : 0;
  const int last = shape.causal ? position : kPositions - 1;
  const int span = shape.gain_span > 0 ? shape.gain_span : kPositions;
  const auto gain = static_cast<double>(kGains[std::min(position / span, 3)]);
  std::vector<double> weights;
  for (int p = first; p <= last; ++p) {
    double score = 0;
    for (int d = 0; d < shape.head_dim; ++d) score += at(position, query + d) * at(p, key + d);
    weights.push_back(score * gain * static_cast<double>(0.3F));
  }
  const double sink = static_cast<double>(sink_of(shape, head));
  double top = *std::max_element(weights.begin(), weights.end());
  if (shape.sinks != Sinks::kNone) top = std::max(top, sink);
  double mass = shape.sinks != Sinks::kNone ? std::exp(sink - top) : 0;
  for (double& weight : weights) mass += weight = std::exp(weight - top);
  std::vector<double> out(static_cast<std::size_t>(shape.head_dim));
  for (int d = 0; d < shape.head_dim; ++d) {
    double& sum = out[static_cast<std::size_t>(d)];
    for (int p = first; p <= last; ++p)
      sum += weights[static_cast<std::size_t>(p - first)] / mass * at(p, key + shape.kv_width() + d);
    if (shape.gated) sum /= 1 + std::exp(-at(position, query + shape.head_dim + d));
  }
  return out;
}

/// The output for all of `rows`, with `chunk` rows per step.
std::vector<float> attended(const Program& program, const AttendShape& shape, const std::vector<float>& rows,
                            const BackendOptions& options, int chunk) {
  const auto backend = std::move(make_backend(options).value());
  const auto executable = std::move(backend->compile(program, {.max_rows = 96, .max_logit_rows = 1}).value());
  const int positions = static_cast<int>(rows.size()) / shape.width();
  std::vector<std::int32_t> blocks(static_cast<std::size_t>((positions + kBlockRows - 1) / kBlockRows));
  std::iota(blocks.rbegin(), blocks.rend(), 0);
  const auto held = static_cast<int>(blocks.size());
  const auto state = std::move(backend->make_state(program.layout(), {.slots = 1, .blocks = held}).value());
  std::vector<float> all;
  for (int begin = 0; begin < positions; begin += chunk) {
    const int count = std::min(chunk, positions - begin);
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 0);
    const std::vector<Segment> segments = {{{blocks, 0, 0, 0}, begin, count, count}};
    StepArgs args;
    args.tokens = tokens;
    args.segments = segments;
    const auto hidden = std::span(rows).subspan(static_cast<std::size_t>(begin * shape.width()),
                                                static_cast<std::size_t>(count * shape.width()));
    const std::vector<float> out =
        run_rows(*backend, *executable, *state, args, hidden, shape.heads * shape.head_dim).captured;
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

TEST(CpuAttend, IsSoftmaxAttentionInAnyChunk) {
  for (const AttendShape& shape :
       {AttendShape{}, AttendShape{12, 1, 64, false}, AttendShape{4, 4, 16, true}, AttendShape{.window = 1},
        AttendShape{.window = 33}, AttendShape{2, 1, 512, false, 64}, AttendShape{.causal = false},
        AttendShape{.sinks = Sinks::kMixed}, AttendShape{8, 2, 64, false, 33, true, Sinks::kMixed},
        AttendShape{.gain_span = 17}, AttendShape{6, 3, 48, false, 40, true, Sinks::kMixed, 30}}) {
    RandomWeights random(2);
    const Program program = attention(shape, random);
    const std::vector<float> rows = exact_rows(random, kPositions * shape.width());
    for (const int kv_bits : {16, 8}) {
      const std::vector<float> kept = kv_bits == 8 ? as_codes(shape, rows) : rows;
      std::vector<double> expected;
      for (int position = 0; position < kPositions; ++position) {
        for (int head = 0; head < shape.heads; ++head) {
          const std::vector<double> one = expected_head(shape, kept, position, head);
          expected.insert(expected.end(), one.begin(), one.end());
        }
      }
      std::vector<float> first;
      for (const cpu::Kernels* kernels : cpu::available_kernels()) {
        for (const int chunk : {1, 3, 16, kPositions}) {
          if (!shape.causal && chunk != kPositions) continue;  // a row sees its whole segment
          const std::vector<float> got = attended(
              program, shape, rows,
              {.name = "cpu", .threads = 2, .settings = {{"isa", kernels->name}, {"kv-bits", kv_bits}}},
              chunk);
          ASSERT_EQ(got.size(), expected.size());
          for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], expected[i], kv_bits == 8 ? 1e-4 : 3e-5)
                << kernels->name << ", " << kv_bits << " bits, chunks of " << chunk << ", number " << i;
          }
          if (first.empty()) first = got;
          ASSERT_EQ(got, first) << kernels->name << ", " << kv_bits << " bits, chunks of " << chunk;
        }
      }
    }
  }
}

constexpr int kSharedChunk = 96, kSharedSteps = 6;  // small steps of 1, 2 .. 6 rows
constexpr int kSharedPrompt = (cpu::kSharePositions / kSharedChunk + 1) * kSharedChunk;  // above one window
constexpr int kSharedRows = kSharedPrompt + kSharedSteps * (kSharedSteps + 1) / 2;

/// The output of the small steps that follow a prompt of `prompt` rows.
std::vector<float> after_prompt(const Program& program, const AttendShape& shape,
                                const std::vector<float>& rows, const BackendOptions& options, int prompt) {
  std::vector<std::int32_t> blocks(kSharedRows / kBlockRows + 1);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::int32_t>(i ^ 1U);
  const auto backend = std::move(make_backend(options).value());
  const auto executable = std::move(backend->compile(program, {.max_rows = kSharedChunk}).value());
  const auto held = static_cast<int>(blocks.size()) + 1;
  const auto state = std::move(backend->make_state(program.layout(), {.slots = 1, .blocks = held}).value());
  const auto step = [&](int position, int count) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 0);
    const std::vector<Segment> segments = {{{blocks, 0, 0, 0}, position, count, count}};
    StepArgs args;
    args.tokens = tokens, args.segments = segments;
    const auto given = std::span(rows).subspan(static_cast<std::size_t>(position * shape.width()),
                                               static_cast<std::size_t>(count * shape.width()));
    return run_rows(*backend, *executable, *state, args, given, shape.heads * shape.head_dim).captured;
  };
  for (int position = 0; position < prompt; position += kSharedChunk) step(position, kSharedChunk);
  std::vector<float> all;
  for (int count = 1, position = prompt; count <= kSharedSteps; position += count++) {
    const std::vector<float> out = step(position, count);
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

/// Few key/value heads and many positions: the workers share a head.
TEST(CpuAttend, WorkersThatShareAHeadGiveTheBitsOfOneWorker) {
  for (const AttendShape& shape : {AttendShape{4, 1, 40, true}, AttendShape{6, 2, 16, false, 150},
                                   AttendShape{6, 2, 16, false, 0, true, Sinks::kMixed}}) {
    RandomWeights random(5);
    const Program program = attention(shape, random);
    const std::vector<float> rows = exact_rows(random, kSharedRows * shape.width());
    for (const cpu::Kernels* kernels : cpu::available_kernels()) {
      for (const int kv_bits : {16, 8}) {
        BackendOptions options{
            .name = "cpu", .threads = 1, .settings = {{"isa", kernels->name}, {"kv-bits", kv_bits}}};
        const std::vector<float> alone = after_prompt(program, shape, rows, options, 2 * kSharedChunk);
        for (const int threads : {5, 8}) {
          options.threads = threads;
          EXPECT_EQ(after_prompt(program, shape, rows, options, 2 * kSharedChunk), alone)
              << kernels->name << ", " << threads << " threads, " << kv_bits << " bits";
        }
      }
    }
  }
}

TEST(CpuAttend, WorkersThatShareAHeadGoFromWindowToWindow) {
  const AttendShape shape{4, 1, 40, true, 0, true, Sinks::kMixed};
  RandomWeights random(6);
  const Program program = attention(shape, random);
  const std::vector<float> rows = exact_rows(random, kSharedRows * shape.width());
  for (const int kv_bits : {16, 8}) {
    BackendOptions options{.name = "cpu", .threads = 1, .settings = {{"kv-bits", kv_bits}}};
    const std::vector<float> alone = after_prompt(program, shape, rows, options, kSharedPrompt);
    options.threads = 3;
    EXPECT_EQ(after_prompt(program, shape, rows, options, kSharedPrompt), alone) << kv_bits << " bits";
  }
}

/// A sink that no score reaches leaves nothing of the values; one below all scores leaves the bits of none.
TEST(CpuAttend, SinksTakeTheirPartOfTheSoftmaxAndNoMore) {
  AttendShape shape{6, 2, 40, false};
  const auto attend = [&](Sinks sinks) {
    shape.sinks = sinks;
    RandomWeights random(2);
    const Program program = attention(shape, random);
    RandomWeights values(3);
    return attended(program, shape, exact_rows(values, kPositions * shape.width()), {.name = "cpu"}, 16);
  };
  const std::vector<float> none = attend(Sinks::kNone);
  EXPECT_EQ(attend(Sinks::kBelow), none);
  EXPECT_NE(attend(Sinks::kMixed), none);
  for (const float value : attend(Sinks::kAbove)) ASSERT_LT(std::abs(value), 1e-20F);
}

/// Rows of a prompt, many of which see whole windows, and the same rows one by one.
TEST(CpuAttend, ManyQueriesHaveTheBitsOfFew) {
  constexpr int kMany = 96, kRows = 2 * cpu::kWindowRows + kMany + 5;
  for (const AttendShape& shape : {AttendShape{6, 1, 40, true}, AttendShape{2, 2, 16, false, 400},
                                   AttendShape{6, 2, 40, false, 0, true, Sinks::kMixed}}) {
    RandomWeights random(7);
    const Program program = attention(shape, random);
    const std::vector<float> rows = exact_rows(random, kRows * shape.width());
    for (const cpu::Kernels* kernels : cpu::available_kernels()) {
      for (const int kv_bits : {16, 8}) {
        const BackendOptions options{
            .name = "cpu", .threads = 2, .settings = {{"isa", kernels->name}, {"kv-bits", kv_bits}}};
        EXPECT_EQ(attended(program, shape, rows, options, kMany), attended(program, shape, rows, options, 1))
            << kernels->name << ", " << kv_bits << " bits";
      }
    }
  }
}

/// Each worker of a small batch has its own copy of a sliced row and does not wait for the others' copies.
TEST(CpuAttend, SlicedRowsHaveTheSameBitsWithAnyThreads) {
  constexpr int kRows = 16, kSteps = 100;
  const AttendShape shape{4, 4, 16, false, 0, false};
  RandomWeights random(3);
  Program program;
  const Row in = program.input(shape.width());
  const Row all = program.linear(in, {picks(random, 0, shape.width(), shape.width())})[0];
  Attention attend;
  attend.q = program.append(Slice{all, 0, shape.query_width(), {}});
  attend.k = program.append(Slice{all, shape.query_width(), shape.kv_width(), {}});
  attend.v = program.append(Slice{all, shape.query_width() + shape.kv_width(), shape.kv_width(), {}});
  attend.heads = shape.heads, attend.kv_heads = shape.kv_heads, attend.head_dim = shape.head_dim;
  attend.eps = 1e-6F, attend.scale = 0.3F, attend.causal = false;
  program.capture("out", program.attend(attend));
  const std::vector<float> rows = exact_rows(random, kSteps * kRows * shape.width());
  const auto run = [&](int threads) {
    const auto backend = std::move(make_backend({.name = "cpu", .threads = threads}).value());
    const auto executable = std::move(backend->compile(program, {.max_rows = 32}).value());
    const auto state = std::move(backend->make_state(program.layout(), {.slots = 1, .blocks = 1}).value());
    const std::vector<std::int32_t> blocks = {0}, tokens(kRows, 0);
    const std::vector<Segment> segments = {{{blocks, 0, 0, 0}, 0, kRows, kRows}};
    std::vector<float> out;
    for (int step = 0; step < kSteps; ++step) {
      StepArgs args;
      args.tokens = tokens, args.segments = segments;
      const auto given = std::span(rows).subspan(static_cast<std::size_t>(step * kRows * shape.width()),
                                                 static_cast<std::size_t>(kRows * shape.width()));
      const auto got =
          run_rows(*backend, *executable, *state, args, given, shape.heads * shape.head_dim).captured;
      out.insert(out.end(), got.begin(), got.end());
    }
    return out;
  };
  const std::vector<float> alone = run(1);
  for (const int threads : {2, 4}) EXPECT_EQ(run(threads), alone) << threads;
}

}  // namespace
}  // namespace ft::attend_test
