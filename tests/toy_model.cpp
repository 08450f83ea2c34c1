#include "tests/toy_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace ft::test {

ToyModel::ToyModel(const ToyOptions& toy_options) : options(toy_options), random_(toy_options.seed) {
  const Weight embedding = matrix(options.vocabulary, options.hidden, 1);
  const Weight output = matrix(options.vocabulary, options.hidden, 2);
  Row x = target.embed(embedding);
  const Row first = x;
  for (int i = 0; i < options.layers; ++i) {
    const Row in = target.norm(x, ones(options.hidden), 1e-6F);
    x = target.add(x, i == options.layers / 2 ? attention(target, in) : delta(target, in));
    x = target.add(x, mlp(target, target.norm(x, ones(options.hidden), 1e-6F)));
  }
  x = target.norm(x, ones(options.hidden), 1e-6F);
  target.capture("hidden", x);
  if (options.folders) target.capture("dflash", target.concat(first, x));
  if (options.folders) target.capture("eagle3", target.concat(first, x));
  target.logits(x, output);
  target.sample();

  const Row hidden = head.input(options.hidden);
  Row y = head.linear(head.concat(head.embed(embedding), hidden),
                      {matrix(options.hidden, 2 * options.hidden, 1)})[0];
  y = head.add(y, attention(head, head.norm(y, ones(options.hidden), 1e-6F)));
  y = head.norm(y, ones(options.hidden), 1e-6F);
  head.capture("hidden", y);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(options.drafts));
  std::iota(ids.begin(), ids.end(), 0);
  head.logits(y, output, std::move(ids), {options.extra, {}});
  head.sample();
  if (options.folders) block_drafter(embedding, output);
  if (options.folders) labelled_drafter(embedding);
  if (options.folders) assistant_drafter(embedding, output);
}

/// Queries over the keys and values of the target's own attention layer.
void ToyModel::assistant_drafter(const Weight& embedding, const Weight& output) {
  const int hidden = options.hidden;
  const auto& list = target.instructions();
  const auto found = std::ranges::find_if(
      list, [](const Instruction& one) { return std::holds_alternative<Attention>(one); });
  Attention attend = std::get<Attention>(*found);
  assistant = Program::over(target.layout());
  const Row before = assistant.input(hidden);
  Row x = assistant.linear(assistant.concat(assistant.embed(embedding), before),
                           {matrix(hidden, 2 * hidden, 1)})[0];
  const int width = attend.heads * attend.head_dim;
  attend.q = assistant.linear(assistant.norm(x, ones(hidden), 1e-6F), {matrix(width, hidden, 1)})[0];
  attend.q_norm = ones(attend.head_dim);
  attend.k = attend.v = {}, attend.k_norm = {};
  attend.gated = false, attend.shared = true;
  x = assistant.add(x, assistant.linear(assistant.attend(attend), {matrix(hidden, width, 1)})[0]);
  x = assistant.norm(x, ones(hidden), 1e-6F);
  assistant.capture("hidden", assistant.linear(x, {matrix(hidden, hidden, 1)})[0]);
  assistant.logits(x, output);
  assistant.sample();
}

void ToyModel::labelled_drafter(const Weight& embedding) {
  const int hidden = options.hidden;
  features.capture("feature",
                   features.linear(features.input(2 * hidden), {matrix(hidden, 2 * hidden, 1)})[0]);
  const Row feature = labelled.input(hidden);
  Row x = labelled.concat(labelled.embed(embedding), feature);
  x = labelled.linear(x, {matrix(hidden, 2 * hidden, 1)})[0];
  x = labelled.add(x, attention(labelled, labelled.norm(x, ones(hidden), 1e-6F)));
  labelled.capture("hidden", x);
  Logits logits;
  for (int token = 0; token < options.vocabulary; ++token)
    if (token % 3 != 1) logits.labels.push_back(token);
  logits.in = labelled.norm(x, ones(hidden), 1e-6F);
  logits.lm_head = matrix(static_cast<std::int64_t>(logits.labels.size()), hidden, 2);
  labelled.logits(std::move(logits));
  labelled.sample();
}

void ToyModel::block_drafter(const Weight& embedding, const Weight& output) {
  constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 16;
  Attention attend;
  attend.q_norm = ones(kHeadDim), attend.k_norm = ones(kHeadDim);
  attend.heads = kHeads, attend.kv_heads = kKvHeads, attend.head_dim = kHeadDim, attend.rotary = kHeadDim;
  for (int j = 0; j < kHeadDim / 2; ++j)
    attend.inverse_frequencies.push_back(std::pow(1e4F, -2.0F * static_cast<float>(j) / kHeadDim));
  attend.eps = 1e-6F;
  attend.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
  const Weight keys = matrix(kKvHeads * kHeadDim, options.hidden, 1);
  const Weight values = matrix(kKvHeads * kHeadDim, options.hidden, 1);
  const Row feature =
      context.linear(context.input(2 * options.hidden), {matrix(options.hidden, 2 * options.hidden, 1)})[0];
  const std::vector<Row> past = context.linear(feature, {keys, values});
  Attention append = attend;
  append.q = append.k = past[0], append.v = past[1];
  append.q_norm = attend.k_norm, append.heads = kKvHeads, append.sliding_window = 1;
  context.attend(append);

  Row x = block.embed(embedding);
  const Row normed = block.norm(x, ones(options.hidden), 1e-6F);
  const bool convolves = options.walks && !options.anchor;
  const std::vector<Row> in = block.linear(convolves ? convolved(normed, normed, 0) : normed,
                                           {matrix(kHeads * kHeadDim, options.hidden, 1), keys, values});
  attend.q = in[0], attend.k = in[1], attend.v = in[2];
  attend.causal = false;
  Row out = block.linear(block.attend(attend), {matrix(options.hidden, kHeads * kHeadDim, 1)})[0];
  if (convolves) out = convolved(out, normed, 1);
  const Row last = block.norm(block.add(x, out), ones(options.hidden), 1e-6F);
  block.logits(last, output);
  if (!options.walks) return block.sample();
  constexpr int kRank = 6, kCandidates = 5;
  Row factors;  // of DSpark: ones
  if (!options.anchor) factors = block.linear(last, {matrix(kRank, options.hidden, 1)})[0];
  block.walk({factors, matrix(options.vocabulary, kRank, 1), matrix(options.vocabulary, kRank, 1),
              kCandidates, options.vocabulary - 1});
}

/// Two taps over the rows of a block, by coefficients of `source`.
Row ToyModel::convolved(Row x, Row source, int side) {
  constexpr int kTaps = 2, kGroups = 4;
  const Row coefficients = block.linear(source, {matrix(2 * kTaps * kGroups, source.width, 0.3F)})[0];
  return block.append(LocalConv{x, coefficients, matrix(2, kTaps * x.width, 1), kTaps, kGroups, side, {}});
}

Weight ToyModel::matrix(std::int64_t rows, std::int64_t cols, float scale) {
  std::normal_distribution<float> normal(0, options.scale * scale / std::sqrt(static_cast<float>(cols)) * 2);
  storage_.push_back(std::make_unique<std::vector<float>>(static_cast<std::size_t>(rows * cols)));
  for (float& value : *storage_.back()) value = normal(random_);
  Weight weight;
  weight.name = "toy" + std::to_string(storage_.size());
  weight.rows = rows;
  weight.cols = cols;
  weight.data = reinterpret_cast<const std::byte*>(storage_.back()->data());
  return weight;
}

Weight ToyModel::ones(std::int64_t size) {
  Weight weight = matrix(1, size, 0.05F);
  weight.offset = 1;
  return weight;
}

Row ToyModel::attention(Program& p, Row x) {
  constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 16, kRotary = 8;
  const std::vector<Row> in =
      p.linear(x, {matrix(2 * kHeads * kHeadDim, x.width, 1), matrix(kKvHeads * kHeadDim, x.width, 1),
                   matrix(kKvHeads * kHeadDim, x.width, 1)});
  Attention attend;
  attend.q = in[0], attend.k = in[1], attend.v = in[2];
  attend.q_norm = ones(kHeadDim), attend.k_norm = ones(kHeadDim);
  attend.heads = kHeads, attend.kv_heads = kKvHeads, attend.head_dim = kHeadDim, attend.rotary = kRotary;
  for (int j = 0; j < kRotary / 2; ++j) {
    attend.inverse_frequencies.push_back(std::pow(1e4F, -2.0F * static_cast<float>(j) / kRotary));
  }
  attend.eps = 1e-6F;
  attend.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
  attend.gated = true;
  const Row out = p.attend(attend);
  return p.linear(out, {matrix(x.width, kHeads * kHeadDim, 1)})[0];
}

Row ToyModel::delta(Program& p, Row x) {
  constexpr int kKeyHeads = 1, kValueHeads = 3, kKeyDim = 16, kValueDim = 24;
  constexpr int kWidth = 2 * kKeyHeads * kKeyDim + kValueHeads * kValueDim;
  const std::vector<Row> in =
      p.linear(x, {matrix(kWidth, x.width, 1), matrix(kValueHeads * kValueDim, x.width, 1),
                   matrix(kValueHeads, x.width, 1), matrix(kValueHeads, x.width, 1)});
  DeltaRule delta;
  delta.in = p.conv(in[0], matrix(kWidth, 4, 1));
  delta.a = in[2], delta.b = in[3];
  delta.a_log = matrix(1, kValueHeads, 1), delta.dt_bias = matrix(1, kValueHeads, 1);
  delta.key_heads = kKeyHeads, delta.value_heads = kValueHeads;
  delta.key_dim = kKeyDim, delta.value_dim = kValueDim;
  const Row y = p.delta_rule(delta);
  const Row gated = p.gated_norm(y, in[1], ones(kValueDim), 1e-6F);
  return p.linear(gated, {matrix(x.width, kValueHeads * kValueDim, 1)})[0];
}

/// A mixture of experts and one that every row passes, as in models/blocks/moe.cpp.
Row ToyModel::mixture(Program& p, Row x) {
  constexpr int kInner = 32;
  const std::vector<Row> in = p.linear(x, {matrix(options.experts, x.width, 1), matrix(kInner, x.width, 1),
                                           matrix(kInner, x.width, 1), matrix(1, x.width, 1)});
  const Row inner = p.swiglu(in[1], in[2]);
  MoeMlp routed;
  routed.in = x, routed.routes = p.append(TopKRouter{in[0], 2, true, {}});
  for (int e = 0; e < options.experts; ++e) {
    routed.gate.push_back(matrix(kInner, x.width, 1)), routed.up.push_back(matrix(kInner, x.width, 1));
    routed.down.push_back(matrix(x.width, kInner, 1));
  }
  const Row everyone = p.linear(inner, {matrix(x.width, kInner, 1)})[0];
  const Row out = p.append(std::move(routed));
  return p.add(out, p.append(SigmoidGate{everyone, in[3], {}}));
}

Row ToyModel::mlp(Program& p, Row x) {
  if (options.experts > 0) return mixture(p, x);
  const std::vector<Row> in = p.linear(x, {matrix(80, x.width, 1), matrix(80, x.width, 1)});
  return p.linear(p.swiglu(in[0], in[1]), {matrix(x.width, 80, 1)})[0];
}

}  // namespace ft::test
