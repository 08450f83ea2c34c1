#include "backends/metal/device_check.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "backends/metal/executable.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"
#include "sampling/sample.h"

namespace ft::metal {
namespace {

constexpr int kTokens = 18;

Error failed(const Device& device, const std::string& what) {
  return {
      Code::kUnsupported,
      fmt::format("metal backend: {} fails the self-test: {}; use --backend cpu and send `foretoken doctor "
                  "--json` to the project",
                  device.describe(), what)};
}

/// Logits of every position by steps of `chunk` rows; all but the first are drafts that are kept.
Result<std::vector<float>> logits_by(const std::shared_ptr<Device>& device, const Program& program, int chunk,
                                     int kv_bits) {
  FT_ASSIGN(const std::unique_ptr<Executable> executable,
            compile(device, program, {.max_rows = kTokens, .max_logit_rows = kTokens}));
  FT_ASSIGN(const std::unique_ptr<State> state,
            MetalState::make(device, program.layout(), {.slots = 1, .blocks = 1}, kv_bits));
  TestTimeline timeline(*executable, *state, {0}, 0);
  std::vector<float> all;
  for (int at = 0; at < kTokens; at += chunk) {
    const int rows = std::min(chunk, kTokens - at), drafts = std::min(rows - 1, kMaxTapeRows);
    std::vector<std::int32_t> tokens;
    for (int i = at; i < at + rows; ++i) tokens.push_back(i * 31 % executable->vocabulary());
    const std::vector<float> logits = timeline.step(tokens, rows - drafts);
    timeline.keep(rows - drafts, drafts);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

/// Rows that are sampled in turn greedily, among all tokens and among a few, which must be the host's choice
/// from the logits of the same step. A draw may differ where two tokens are alike but for rounding.
Status check_drafts(const std::shared_ptr<Device>& device, const Program& program, int kv_bits) {
  constexpr int kMaxDifferent = 1;
  SamplingParams samplers[3];
  samplers[1].temperature = samplers[2].temperature = 2;
  samplers[2].top_k = 7, samplers[2].top_p = 0.9F, samplers[2].min_p = 0.01F;
  FT_ASSIGN(const std::unique_ptr<Executable> executable,
            compile(device, program, {.max_rows = kTokens, .max_logit_rows = kTokens}));
  FT_ASSIGN(const std::unique_ptr<State> state,
            MetalState::make(device, program.layout(), {.slots = 1, .blocks = 1}, kv_bits));
  const TestTimeline timeline(*executable, *state, {0}, 0);
  const Segment segment = timeline.segment(kTokens, kTokens);
  std::vector<std::int32_t> tokens(kTokens), logit_rows(kTokens), round(kTokens, -1);
  std::vector<SampleRow> samples(kTokens);
  std::iota(logit_rows.begin(), logit_rows.end(), 0);
  for (std::int32_t i = 0; i < kTokens; ++i) {
    const auto at = static_cast<std::size_t>(i);
    tokens[at] = i * 31 % executable->vocabulary();
    samples[at].sampler = &samplers[i % 3], samples[at].position = i;
    samples[at].store = i, samples[at].exact = false;
  }
  StepArgs args;
  args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = logit_rows;
  args.samples = samples, args.round_tokens = round;
  const std::span<const float> logits = executable->run(args, *state).logits;
  const std::size_t columns = logits.size() / kTokens;
  SampleScratch scratch;
  int greedy = 0, drawn = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int32_t token =
        sample(logits.subspan(i * columns, columns), executable->ids(), samples[i], scratch);
    (i % 3 == 0 ? greedy : drawn) += token == round[i] ? 0 : 1;
  }
  if (greedy == 0 && drawn <= kMaxDifferent) return {};
  return failed(*device, fmt::format("{} of {} drafts differ from its logits", greedy + drawn, kTokens));
}

Status compare(const std::shared_ptr<Device>& device, const TestShape& shape, int kv_bits) {
  const TestProgram test(shape, 1);
  FT_ASSIGN(const std::vector<float> whole, logits_by(device, test.program, kTokens, kv_bits));
  FT_ASSIGN(const std::vector<float> expected, logits_by(open_twin_device(), test.program, kTokens, kv_bits));
  double squares = 0, errors = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    squares += expected[i] * static_cast<double>(expected[i]);
    errors += std::pow(whole[i] - static_cast<double>(expected[i]), 2);
  }
  constexpr double kTolerance = 2e-2;  // keys and values are float16, and two layers amplify
  const double difference = std::sqrt(errors / squares);
  if (!(difference < kTolerance))
    return failed(*device,
                  fmt::format("its results differ by {:.2g} from the same kernels as C++", difference));
  for (const int chunk : {1, 2, 3, 8}) {
    FT_ASSIGN(const std::vector<float> again, logits_by(device, test.program, chunk, kv_bits));
    if (again == whole) continue;
    return failed(*device, fmt::format("a row has other bits among {} rows than among {}", chunk, kTokens));
  }
  return check_drafts(device, test.program, kv_bits);
}

/// A matrix's part in a shape.
struct MatrixKind {
  Format format;
  int bits, group;
  Format scales;
  auto operator<=>(const MatrixKind&) const = default;
};

struct MatrixKinds final : Describer {
  void vector(const Weight&, std::int64_t) override {}
  void matrix(const Weight& weight, std::int64_t, std::int64_t, std::int64_t) override {
    const bool affine = weight.format == Format::kAffine;
    found.insert({weight.format, affine ? weight.bits : 0, affine ? weight.group : 0,
                  affine ? weight.scale_format : Format::kF32});
  }
  std::set<MatrixKind> found;
};

void take_format(const MatrixKind& kind, TestShape& shape) {
  shape.bits = kind.format == Format::kBf16 ? 0 : 4;
  shape.matrices = kind.format == Format::kBf16 ? Format::kAffine : kind.format;
  if (kind.format == Format::kAffine)
    shape.bits = kind.bits, shape.group = kind.group, shape.scales = kind.scales;
  shape.hidden = std::max(64, shape.group), shape.mlp = shape.expert = shape.hidden;
}

void take_state(const Instruction& instruction, TestShape& shape) {
  if (const auto* const op = std::get_if<Attention>(&instruction)) {
    shape.heads = op->heads / op->kv_heads, shape.kv_heads = 1;
    shape.head_dim = op->head_dim, shape.rotary = op->rotary;
  }
  if (const auto* const op = std::get_if<DeltaRule>(&instruction)) {
    shape.key_heads = 1, shape.value_heads = 2;
    shape.key_dim = op->key_dim, shape.value_dim = op->value_dim;
  }
}

}  // namespace

std::vector<TestShape> shapes_of(const Program& program) {
  MatrixKinds kinds;
  std::map<std::pair<int, int>, const Instruction*> attends;  // by dimensions of a head and heads of a group
  TestShape least;
  least.layers = 1, least.vocabulary = 64, least.alike = true;
  for (const Instruction& instruction : program.instructions()) {
    describe(instruction, kinds);
    if (const auto* const op = std::get_if<Attention>(&instruction)) {
      attends.emplace(std::pair(op->head_dim, op->heads / op->kv_heads), &instruction);
      if (op->sliding_window > 0) least.window = kTokens / 2;
    }
    take_state(instruction, least);
    if (std::holds_alternative<LayerNorm>(instruction)) least.tower = true;
    if (std::holds_alternative<MoeMlp>(instruction)) least.experts = 4, least.chosen = 2;
    if (const auto* const op = std::get_if<Logits>(&instruction)) least.softcap = op->softcap;
    // The second layer of a test program has the other kind of MLP.
    const auto* const gelu = std::get_if<Gelu>(&instruction);
    if (std::holds_alternative<Geglu>(instruction)) least.layers = 2, least.gemma = true;
    if (gelu != nullptr && gelu->exact) least.layers = 2;
  }
  std::vector<TestShape> shapes;
  auto attend = attends.begin();
  auto kind = kinds.found.begin();
  for (std::size_t i = 0; i < std::max(attends.size(), kinds.found.size()); ++i) {
    TestShape& shape = shapes.emplace_back(least);
    if (kind != kinds.found.end()) take_format(*kind, shape);
    if (attend != attends.end()) take_state(*attend->second, shape);
    if (kind != kinds.found.end() && ++kind == kinds.found.end() && i + 1 < attends.size())
      kind = kinds.found.begin();
    if (attend != attends.end() && ++attend == attends.end()) attend = attends.begin();
  }
  return shapes;
}

Status self_test(const std::shared_ptr<Device>& device) { return self_test(device, {TestShape::odd()}, 16); }

Status self_test(const std::shared_ptr<Device>& device, const std::vector<TestShape>& shapes, int kv_bits) {
  try {
    for (const TestShape& shape : shapes) FT_TRY(compare(device, shape, kv_bits));
    return {};
  } catch (const std::exception& error) {
    return failed(*device, error.what());
  }
}

}  // namespace ft::metal
