// Small programs with every instruction, for tests of backends: one with the shapes of a small real model,
// one with sizes that are not a multiple of anything.
#pragma once

#include <cmath>
#include <vector>

#include "backends/random_weights.h"
#include "program/program.h"

namespace ft {

struct TestShape {
  int hidden = 128, vocabulary = 128, mlp = 192;
  int heads = 4, kv_heads = 2, head_dim = 64, rotary = 16;
  int key_heads = 2, value_heads = 4, key_dim = 64, value_dim = 128, kernel_width = 4;
  int bits = 4, group = 64;  // bits 0: bf16
  Format scales = Format::kBf16;
  Format matrices = Format::kAffine;  // others: without bits and group
  int layers = 2;                     // of both kinds each
  bool attention = true;
  bool alike = false;  // every matrix of one format
  std::vector<std::int32_t> ids;
  ExtraIds extra = {};
  int window = 0;       // of every second attention layer
  bool gemma = false;   // values normalised, norms without weight, scaled and sliced rows
  bool shares = false;  // every second attention layer reads the cache of the one before
  float softcap = 0;
  std::vector<std::int32_t> labels = {};
  int experts = 0, chosen = 0;  // in place of every second dense MLP; their width is `expert`
  int expert = 0;
  bool clamped = false;  // the experts have biases and a clamped activation, attention has sinks
  bool tower = false;    // norms with a mean, biases and gelu of a vision tower; frequencies on three axes

  /// A mixture of experts whose widths suit no block.
  static TestShape mixture() {
    TestShape shape = odd();
    shape.experts = 11, shape.chosen = 3;
    shape.expert = 40;
    return shape;
  }
  /// Windows, shared caches and the other attributes that Gemma 4 and EAGLE-3 need.
  static TestShape widened() {
    TestShape shape = odd();
    shape.window = 21;
    shape.gemma = true;
    shape.softcap = 5;
    shape.layers = 4;
    for (int v = 0; v < shape.vocabulary; ++v) shape.labels.push_back(3 * v + 1);
    return shape;
  }
  /// Sinks, windows, and experts with biases, as gpt-oss needs them.
  static TestShape clamped_mixture() {
    TestShape shape = mixture();
    shape.clamped = true;
    shape.window = 21;
    return shape;
  }
  static TestShape vision() {
    TestShape shape = odd();
    shape.tower = true;
    return shape;
  }
  static TestShape shared() {
    TestShape shape;
    shape.shares = shape.gemma = true;
    shape.window = 40;
    return shape;
  }

  static TestShape odd() {
    TestShape shape;
    shape.hidden = 96;
    shape.vocabulary = 107;
    shape.mlp = 160;
    shape.heads = 6;
    shape.kv_heads = 2;
    shape.head_dim = 16 + 16;
    shape.rotary = 6;
    shape.key_heads = 2;
    shape.value_heads = 4;
    shape.key_dim = 20;
    shape.value_dim = 40;
    shape.kernel_width = 3;
    shape.group = 32;
    shape.scales = Format::kF16;
    shape.bits = 5;
    return shape;
  }
};

class TestProgram {
 public:
  TestProgram(const TestShape& test_shape, std::uint64_t seed) : weights_(seed), shape_(test_shape) {
    const Weight table = matrix(shape_.vocabulary, shape_.hidden);
    Row x = program.embed(table);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      if (shape_.attention) x = program.add(x, attention(norm(x), layer));
      x = program.add(x, mlp(norm(x), layer % 2 == 1));
      x = program.add(x, gated_delta(norm(x)));
      x = program.add(x, shape_.experts > 0 ? mixture(norm(x)) : mlp(norm(x), layer % 2 == 1));
    }
    x = shape_.gemma ? program.norm(widen(x), {}, 1e-6F) : norm(x);
    program.capture("final", x);
    program.logits(Logits{x, table, shape_.ids, shape_.extra, shape_.labels, shape_.softcap});
    program.sample();
  }

  Program program;

 private:
  Weight matrix(int rows, int cols) {
    if (shape_.bits == 0)
      return weights_.plain(Format::kBf16, rows, cols, 1.7F / std::sqrt(static_cast<float>(cols)));
    const Format format = shape_.matrices;
    if (format == Format::kAffine)
      return weights_.affine(rows, cols, shape_.bits, shape_.group, shape_.scales);
    if (format == Format::kF16 || format == Format::kF32)
      return weights_.plain(format, rows, cols, 1.7F / std::sqrt(static_cast<float>(cols)));
    return weights_.block_float(format, rows, cols);
  }
  Row norm(Row x) {
    if (!shape_.tower) return rms_norm(x);
    const Weight weight = weights_.plain(Format::kBf16, 1, x.width, 0.3F, 1);
    return program.layer_norm(x, weight, weights_.plain(Format::kF32, 1, x.width, 0.2F), 1e-6F);
  }
  Row rms_norm(Row x) { return program.norm(x, weights_.plain(Format::kBf16, 1, x.width, 0.3F, 1), 1e-6F); }

  /// The same columns in another order, scaled.
  Row widen(Row x) {
    const int half = x.width / 2;
    const Row low = program.append(Slice{x, 0, half, {}});
    const Row high = program.append(Slice{x, half, x.width - half, {}});
    return program.append(Scale{program.concat(high, low), 0.75F, {}});
  }

  Row attention(Row x, int layer) {
    const int q_width = 2 * shape_.heads * shape_.head_dim;
    const int kv_width = shape_.kv_heads * shape_.head_dim;
    const std::vector<Row> qkv = program.linear(
        x, {matrix(q_width, x.width), matrix(kv_width, x.width),
            shape_.bits == 0 || shape_.alike ? matrix(kv_width, x.width)
                                             : weights_.affine(kv_width, x.width, 8, 32, Format::kF32)});
    Attention attend;
    attend.q = qkv[0];
    attend.k = qkv[1];
    attend.v = qkv[2];
    attend.q_norm = weights_.plain(Format::kF32, 1, shape_.head_dim, 0.2F, 1);
    attend.k_norm = weights_.plain(Format::kF16, 1, shape_.head_dim, 0.2F, 1);
    attend.heads = shape_.heads;
    attend.kv_heads = shape_.kv_heads;
    attend.head_dim = shape_.head_dim;
    attend.rotary = shape_.rotary;
    for (int j = 0; j < shape_.rotary / 2; ++j) {
      attend.inverse_frequencies.push_back(
          std::pow(10000.0F, -2.0F * static_cast<float>(j) / static_cast<float>(shape_.rotary)));
    }
    for (int j = 0; shape_.tower && j < shape_.rotary / 2; ++j)
      attend.frequency_axes.push_back(static_cast<std::uint8_t>(j % 3));
    attend.eps = 1e-6F;
    attend.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
    attend.gated = true;
    if (shape_.clamped) attend.sinks = weights_.plain(Format::kBf16, 1, shape_.heads, 3);
    attend.v_norm = shape_.gemma;
    if (shape_.shares && layer % 2 == 1) {
      attend.shared = true;
      attend.cache = cache_;
      attend.k = attend.v = {};
      attend.sliding_window = window_;
    } else {
      attend.sliding_window = window_ = layer % 2 == 0 ? shape_.window : 0;
      cache_ = static_cast<int>(program.layout().caches.size());
    }
    return project(program.attend(attend));
  }

  Row gated_delta(Row x) {
    const int keys = shape_.key_heads * shape_.key_dim;
    const int values = shape_.value_heads * shape_.value_dim;
    const std::vector<Row> rows =
        program.linear(x, {matrix(2 * keys + values, x.width), matrix(values, x.width),
                           shape_.alike ? matrix(shape_.value_heads, x.width)
                                        : weights_.plain(Format::kBf16, shape_.value_heads, x.width, 0.1F),
                           matrix(shape_.value_heads, x.width)});
    DeltaRule delta;
    delta.in = program.conv(rows[0], weights_.plain(Format::kBf16, rows[0].width, shape_.kernel_width, 0.8F));
    delta.a = rows[2];
    delta.b = rows[3];
    delta.a_log = weights_.plain(Format::kF32, 1, shape_.value_heads, 1);
    delta.dt_bias = weights_.plain(Format::kF32, 1, shape_.value_heads, 1);
    delta.key_heads = shape_.key_heads;
    delta.value_heads = shape_.value_heads;
    delta.key_dim = shape_.key_dim;
    delta.value_dim = shape_.value_dim;
    const Row y = program.delta_rule(delta);
    return project(
        program.gated_norm(y, rows[1], weights_.plain(Format::kF32, 1, shape_.value_dim, 0.3F, 1), 1e-6F));
  }

  /// A shared expert with a gate next to the routed ones; with `gemma`, that family's variants.
  Row mixture(Row x) {
    const std::vector<Row> rows = program.linear(x, {matrix(shape_.experts, x.width), matrix(1, x.width)});
    TopKRouter route{rows[0], shape_.chosen, !shape_.gemma, {}, {}};
    if (shape_.gemma) route.scale = weights_.plain(Format::kBf16, 1, shape_.experts, 0.5F, 1);
    MoeMlp experts;
    experts.in = x;
    experts.routes = program.append(route);
    if (shape_.gemma) experts.activation = Activation::kGeluTanh;
    for (int e = 0; e < shape_.experts; ++e) {
      experts.gate.push_back(matrix(shape_.expert, x.width));
      experts.up.push_back(matrix(shape_.expert, x.width));
      experts.down.push_back(back_to_hidden(shape_.expert));
    }
    if (shape_.clamped) {
      experts.gate_bias = weights_.plain(Format::kBf16, shape_.experts, shape_.expert, 0.5F);
      experts.up_bias = weights_.plain(Format::kF32, shape_.experts, shape_.expert, 0.5F);
      experts.down_bias = weights_.plain(Format::kF16, shape_.experts, shape_.hidden, 0.5F);
      experts.activation = Activation::kClampedSwiglu, experts.limit = 1.2F;
    }
    const Row shared = mlp(x, shape_.gemma);
    return program.add(program.append(std::move(experts)), program.append(SigmoidGate{shared, rows[1], {}}));
  }

  Row mlp(Row x, bool geglu) {
    if (shape_.tower) {
      const Row inner = program.linear(x, {matrix(shape_.mlp, x.width)})[0];
      const Row moved = program.bias(inner, weights_.plain(Format::kBf16, 1, shape_.mlp, 0.3F));
      return project(program.gelu(moved, geglu));
    }
    const std::vector<Row> rows =
        program.linear(x, {matrix(shape_.mlp, x.width), matrix(shape_.mlp, x.width)});
    return project(geglu ? program.geglu(rows[0], rows[1]) : program.swiglu(rows[0], rows[1]));
  }

  Row project(Row x) { return program.linear(x, {back_to_hidden(x.width)})[0]; }
  /// Plain if the groups do not divide the width.
  Weight back_to_hidden(int width) {
    const bool divides = width % shape_.group == 0;
    return divides ? matrix(shape_.hidden, width) : weights_.plain(Format::kF16, shape_.hidden, width, 0.1F);
  }

  RandomWeights weights_;
  TestShape shape_;
  int cache_ = 0, window_ = 0;  // of the last attention layer with a separate cache
};

}  // namespace ft
