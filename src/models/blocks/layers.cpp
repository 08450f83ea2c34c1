#include "models/blocks/layers.h"

#include <cmath>
#include <utility>

namespace ft::blocks {
namespace {

Row with_bias(Program& p, WeightSource& source, Row x, const std::string& module, bool biased) {
  return biased ? p.bias(x, source.vector(module + ".bias", x.width)) : x;
}

}  // namespace

Row attention(Program& p, WeightSource& source, Row x, const std::string& prefix, const AttentionPart& part) {
  const int kv_width = part.kv_heads * part.head_dim;
  const int width = part.heads * part.head_dim;
  const Weight q = source.matrix(prefix + "q_proj", part.gated ? 2 * width : width, x.width);
  const Weight k = source.matrix(prefix + "k_proj", kv_width, x.width);
  const Weight v = source.matrix(prefix + "v_proj", kv_width, x.width);
  const Weight o = source.matrix(prefix + "o_proj", part.hidden, width);
  const std::vector<Row> in = p.linear(x, {q, k, v});
  Attention attend;
  attend.q = with_bias(p, source, in[0], prefix + "q_proj", part.qkv_bias);
  attend.k = with_bias(p, source, in[1], prefix + "k_proj", part.qkv_bias);
  attend.v = with_bias(p, source, in[2], prefix + "v_proj", part.qkv_bias);
  if (part.qk_norm) {
    attend.q_norm = source.norm(prefix + "q_norm", part.head_dim);
    attend.k_norm = source.norm(prefix + "k_norm", part.head_dim);
  }
  if (part.sinks) attend.sinks = source.vector(prefix + "sinks", part.heads);
  attend.heads = part.heads, attend.kv_heads = part.kv_heads, attend.head_dim = part.head_dim;
  if (part.rope != nullptr) set_rope(attend, *part.rope);
  attend.frequency_axes = part.frequency_axes;
  attend.eps = part.eps;
  attend.scale = part.scale != 0 ? part.scale : 1.0F / std::sqrt(static_cast<float>(part.head_dim));
  attend.gated = part.gated;
  attend.sliding_window = part.window;
  const Row out = p.linear(p.attend(std::move(attend)), {o})[0];
  return with_bias(p, source, out, prefix + "o_proj", part.o_bias);
}

Row mlp(Program& p, WeightSource& source, Row x, const std::string& prefix, std::int64_t width,
        Activation activation, bool bias) {
  const Weight gate = source.matrix(prefix + "gate_proj", width, x.width);
  const Weight up = source.matrix(prefix + "up_proj", width, x.width);
  const Weight down = source.matrix(prefix + "down_proj", x.width, width);
  const std::vector<Row> in = p.linear(x, {gate, up});
  const Row gated = with_bias(p, source, in[0], prefix + "gate_proj", bias);
  const Row raised = with_bias(p, source, in[1], prefix + "up_proj", bias);
  const Row inner = activation == Activation::kSilu ? p.swiglu(gated, raised) : p.geglu(gated, raised);
  return with_bias(p, source, p.linear(inner, {down})[0], prefix + "down_proj", bias);
}

Row norm(Program& p, WeightSource& source, Row x, const std::string& name, float eps) {
  return p.norm(x, source.norm(name, x.width), eps);
}

Row scale(Program& p, Row x, float factor) { return factor == 1 ? x : p.append(Scale{x, factor, {}}); }

}  // namespace ft::blocks
