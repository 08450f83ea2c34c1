// One instruction at a time, for tests of backends: programs around each, and rows sent through them in steps
// of any size. Owner: tests. Errors: a program or a state that cannot be made ends the test.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/random_weights.h"
#include "program/backend.h"
#include "program/program.h"

namespace ft {

inline std::vector<float> random_rows(RandomWeights& random, int rows, int width) {
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  for (float& value : values) value = random.uniform() * std::exp(2 * random.uniform());
  return values;
}

/// The root of the mean square of the differences, relative to the root mean square of `expected`.
inline double difference(const std::vector<float>& got, const std::vector<float>& expected) {
  double squares = 0, errors = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    squares += expected[i] * static_cast<double>(expected[i]);
    errors += std::pow(got[i] - static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(errors / squares);
}

/// Columns [first, first + width) of a row matrix.
inline Row part(Program& program, Row in, int first, int width) {
  return program.append(Slice{in, first, width, {}});
}

inline int captured_width(const Program& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* capture = std::get_if<Capture>(&instruction)) return capture->in.width;
  }
  return 0;
}

/// The captured rows after steps of `chunk` rows each, the last `drafts` rows of each not confirmed but kept.
/// rows: [any, width] for the program's inputs.
inline std::vector<float> captured_rows(Backend& backend, const Program& program,
                                        const std::vector<float>& rows, int width, int chunk,
                                        int drafts = 0) {
  const int count = static_cast<int>(rows.size()) / width;
  const auto executable =
      std::move(backend.compile(program, {.max_rows = count, .max_logit_rows = 8}).value());
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(count / kBlockRows + 2));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::rotate(blocks.begin(), blocks.begin() + 2, blocks.begin() + 3);  // not in the usual order
  const StateOptions memory{.slots = 2, .blocks = static_cast<int>(blocks.size())};
  const auto state = std::move(backend.make_state(program.layout(), memory).value());
  const auto store = std::move(backend.make_rows(width, count).value());
  store->write(0, rows);
  const int out_width = captured_width(program);
  const auto captured = std::move(backend.make_rows(out_width, count).value());
  std::vector<std::int32_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  int replay = 0, tape = 0;
  for (int at = 0; at < count; at += chunk) {
    const int now = std::min(chunk, count - at), loose = std::min(drafts, now - 1);
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(now), 0);
    const Segment segment{{blocks, 1, replay, tape}, at, now, now - loose};
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
  std::vector<float> all(static_cast<std::size_t>(count * out_width));
  captured->read(0, all);
  return all;
}

/// A program around one instruction, and the width of its input.
struct InstructionProgram {
  Program program;
  int width = 0;
};

/// Linears of one input, side by side.
inline InstructionProgram linear_program(const std::vector<Weight>& weights) {
  InstructionProgram made;
  made.width = static_cast<int>(weights[0].cols);
  const std::vector<Row> outs = made.program.linear(made.program.input(made.width), weights);
  made.program.capture("out", outs.size() > 1 ? made.program.concat(outs[0], outs[1]) : outs[0]);
  return made;
}

/// A matrix of 256 inputs and one of 128 whose bytes begin at the same address.
inline InstructionProgram two_of_one_address(RandomWeights& random) {
  const Weight wide = random.affine(64, 256, 4, 64);
  Weight narrow = wide;
  narrow.name = "narrow", narrow.cols = 128;
  InstructionProgram made;
  made.width = 256;
  Program& program = made.program;
  const Row in = program.input(made.width), half = part(program, in, 0, 128);
  program.capture("out", program.concat(program.linear(in, {wide})[0], program.linear(half, {narrow})[0]));
  return made;
}

struct DeltaShape {
  int key_dim = 128, value_dim = 64, kernel_width = 4;
  int key_heads = 2, value_heads = 4;

  int width() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  /// Sizes that no block divides.
  static DeltaShape odd() { return {.key_dim = 20, .value_dim = 41, .kernel_width = 3}; }
};

inline InstructionProgram conv_program(RandomWeights& random, const DeltaShape& shape) {
  InstructionProgram made;
  made.width = shape.width();
  const Weight taps = random.plain(Format::kBf16, made.width, shape.kernel_width, 0.8F);
  made.program.capture("out", made.program.conv(made.program.input(made.width), taps));
  return made;
}

inline InstructionProgram delta_program(RandomWeights& random, const DeltaShape& shape) {
  InstructionProgram made;
  made.width = shape.width() + 2 * shape.value_heads;
  Program& program = made.program;
  const Row in = program.input(made.width);
  DeltaRule delta;
  delta.in = part(program, in, 0, shape.width());
  delta.a = part(program, in, shape.width(), shape.value_heads);
  delta.b = part(program, in, shape.width() + shape.value_heads, shape.value_heads);
  delta.a_log = random.plain(Format::kF32, 1, shape.value_heads, 1);
  delta.dt_bias = random.plain(Format::kF32, 1, shape.value_heads, 1);
  delta.key_heads = shape.key_heads, delta.value_heads = shape.value_heads;
  delta.key_dim = shape.key_dim, delta.value_dim = shape.value_dim;
  program.capture("out", program.delta_rule(delta));
  return made;
}

/// Convolution, delta rule, gated norm and the linear after them, as a recurrent layer has them.
inline InstructionProgram recurrent_program(RandomWeights& random, const DeltaShape& shape, int outputs) {
  const int values = shape.value_heads * shape.value_dim, heads = shape.value_heads;
  InstructionProgram made;
  made.width = shape.width() + values + 2 * heads;
  Program& program = made.program;
  const Row in = program.input(made.width);
  const Row gate = part(program, in, shape.width(), values);
  DeltaRule delta;
  delta.a = part(program, in, shape.width() + values, heads);
  delta.b = part(program, in, shape.width() + values + heads, heads);
  const Row mixed = part(program, in, 0, shape.width());
  delta.in = program.conv(mixed, random.plain(Format::kBf16, shape.width(), shape.kernel_width, 0.8F));
  delta.a_log = random.plain(Format::kF32, 1, heads, 1);
  delta.dt_bias = random.plain(Format::kF32, 1, heads, 1);
  delta.key_heads = shape.key_heads, delta.value_heads = heads;
  delta.key_dim = shape.key_dim, delta.value_dim = shape.value_dim;
  const Weight norm = random.plain(Format::kF32, 1, shape.value_dim, 0.3F, 1);
  const Row normed = program.gated_norm(program.delta_rule(delta), gate, norm, 1e-6F);
  program.capture("out", program.linear(normed, {random.affine(outputs, values, 4, 64)})[0]);
  return made;
}

struct AttendShape {
  int heads = 4, kv_heads = 2, head_dim = 40, rotary = 0, window = 0;
  bool causal = true, gated = false;
  float scale = 1;  // times 1 / sqrt(head_dim)
  bool sinks = false;
  int gain_span = 0;  // positions of each of three gains; 0: none
};

inline InstructionProgram attend_program(RandomWeights& random, const AttendShape& shape) {
  InstructionProgram made;
  Program& program = made.program;
  const int q = (shape.gated ? 2 : 1) * shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  made.width = q + 2 * kv;
  const Row in = program.input(made.width);
  Attention attend;
  attend.q = part(program, in, 0, q), attend.k = part(program, in, q, kv);
  attend.v = part(program, in, q + kv, kv);
  if (shape.rotary > 0) attend.q_norm = random.plain(Format::kF32, 1, shape.head_dim, 0.2F, 1);
  if (shape.rotary > 0 || shape.window > 0)
    attend.k_norm = random.plain(Format::kF16, 1, shape.head_dim, 0.2F, 1);
  attend.heads = shape.heads, attend.kv_heads = shape.kv_heads, attend.head_dim = shape.head_dim;
  attend.rotary = shape.rotary, attend.sliding_window = shape.window, attend.v_norm = shape.window > 0;
  attend.causal = shape.causal, attend.gated = shape.gated;
  if (shape.gain_span > 0) attend.gains = {1, 1.5F, 2.25F}, attend.gain_span = shape.gain_span;
  if (shape.sinks) attend.sinks = random.plain(Format::kBf16, 1, shape.heads, 3);
  for (int j = 0; j < shape.rotary / 2; ++j)
    attend.inverse_frequencies.push_back(
        std::pow(1e4F, -2.0F * static_cast<float>(j) / static_cast<float>(shape.rotary)));
  attend.eps = 1e-6F, attend.scale = shape.scale / std::sqrt(static_cast<float>(shape.head_dim));
  program.capture("out", program.attend(attend));
  return made;
}

}  // namespace ft
