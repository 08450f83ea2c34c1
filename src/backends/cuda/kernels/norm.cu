// Norms, codes of activations and the instructions that go element by element.
#include "backends/cuda/kernels/quantise.cuh"

namespace ft::cuda {

constexpr int kNormThreads = 256;

/// The sum over a block of 256 threads, the same in each of them.
FT_DEVICE float block_sum(float value) {
  FT_SHARED float sums[kNormThreads / 32];
  value = warp_sum(value);
  if (lane_of() == 0) sums[warp_of()] = value;
  sync_block();
  float total = 0;
  FT_UNROLL for (int i = 0; i < kNormThreads / 32; i++) total = total + sums[i];
  return total;
}

FT_DEVICE void store16(float* to, int count, const float (&v)[16]) {
  if (count >= 16) {
    FT_UNROLL for (int j = 0; j < 16; j += 4) * (float4*)(to + j) =
        make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
    return;
  }
  FT_UNROLL for (int j = 0; j < 16; j++) if (j < count) to[j] = v[j];
}

// One block per row. Thread i has the values [16 i, 16 i + 16) of each 4,096. The first kNormKept of these
// groups stay in registers, so that the block waits for memory once; the rest is read twice.
template <bool Halves>
FT_DEVICE void norm_rows(const NormArgs& p) {
  release_next();
  const int row = (int)blockIdx.x, width = p.in.width, own = (int)threadIdx.x * 16;
  const float* in = p.in.data + (long long)row * p.in.stride;
  constexpr int kPart = 16 * kNormThreads;
  float v[kNormKept][16], w[kNormKept][16];
  FT_UNROLL for (int c = 0; c < kNormKept; c++) {
    FT_UNROLL for (int j = 0; j < 16; j++) w[c][j] = 1, v[c][j] = 0;
    const int at = c * kPart + own;
    if (at < width && p.weight != nullptr) load16(p.weight + at, width - at, w[c]);
  }
  wait_for_rows();
  FT_UNROLL for (int c = 0; c < kNormKept; c++) {
    const int at = c * kPart + own;
    if (at < width) load16(in + at, width - at, v[c]);
  }
  float sum = 0;
  FT_UNROLL for (int c = 0; c < kNormKept; c++) FT_UNROLL for (int j = 0; j < 16; j++) sum =
      fma_(v[c][j], v[c][j], sum);
  FT_LOOP for (int at = kNormKept * kPart + own; at < width; at += kPart) {
    float x[16];
    load16(in + at, width - at, x);
    FT_UNROLL for (int j = 0; j < 16; j++) sum = fma_(x[j], x[j], sum);
  }
  const float factor = 1.0f / sqrt_(block_sum(sum) / (float)width + p.eps);
  const auto store = [&](int first, float(&x)[16], const float(&weight)[16]) {  // whole warps make codes
    const int at = first + own;
    FT_UNROLL for (int j = 0; j < 16; j++) x[j] = x[j] * factor * weight[j];
    if (at < width && p.out.data != nullptr)
      store16(p.out.data + (long long)row * p.out.stride + at, width - at, x);
    if (p.codes.codes != nullptr) store_rows<Halves, 16>(p.codes, row, at, x, at < width);
  };
  FT_UNROLL for (int c = 0; c < kNormKept; c++) if (c * kPart < width) store(c * kPart, v[c], w[c]);
  FT_LOOP for (int first = kNormKept * kPart; first < width; first += kPart) {
    const int at = first + own;
    float x[16], weight[16];
    FT_UNROLL for (int j = 0; j < 16; j++) x[j] = 0, weight[j] = 1;
    if (at < width) load16(in + at, width - at, x);
    if (at < width && p.weight != nullptr) load16(p.weight + at, width - at, weight);
    store(first, x, weight);
  }
}

FT_KERNEL(rms_norm, NormArgs, 256) { norm_rows<false>(p); }
FT_KERNEL(rms_norm_half, NormArgs, 256) { norm_rows<true>(p); }

FT_DEVICE void load_kept(const float* from, int width, float (&v)[kNormKept][16]) {
  FT_UNROLL for (int c = 0; c < kNormKept; c++) {
    const int at = c * 16 * kNormThreads + (int)threadIdx.x * 16;
    if (at < width) load16(from + at, width - at, v[c]);
  }
}

/// 1 / root mean square of a row that is kept in registers, zeros beyond its end.
FT_DEVICE float factor_of_kept(const float (&v)[kNormKept][16], int width, float eps) {
  float sum = 0;
  FT_UNROLL for (int c = 0; c < kNormKept; c++) FT_UNROLL for (int j = 0; j < 16; j++) sum =
      fma_(v[c][j], v[c][j], sum);
  return 1.0f / sqrt_(block_sum(sum) / (float)width + eps);
}

// rms_norm, add, scale and rms_norm in turn, with their bits. One block a row of up to kNormChainWidth.
FT_KERNEL(norm_chain, NormChainArgs, 256) {
  release_next();
  const int row = (int)blockIdx.x, width = p.in.width;
  float v[kNormKept][16], w[kNormKept][16], second[kNormKept][16], added[kNormKept][16];
  FT_UNROLL for (int c = 0; c < kNormKept; c++) {
    FT_UNROLL for (int j = 0; j < 16; j++) v[c][j] = added[c][j] = 0, w[c][j] = second[c][j] = 1;
  }
  if (p.weight != nullptr) load_kept(p.weight, width, w);
  if (p.second != 0 && p.second_weight != nullptr) load_kept(p.second_weight, width, second);
  wait_for_rows();
  load_kept(p.in.data + (long long)row * p.in.stride, width, v);
  if (p.residual.data != nullptr)
    load_kept(p.residual.data + (long long)row * p.residual.stride, width, added);
  const float factor = factor_of_kept(v, width, p.eps);
  FT_UNROLL for (int c = 0; c < kNormKept; c++) {
    const int at = c * 16 * kNormThreads + (int)threadIdx.x * 16;
    FT_UNROLL for (int j = 0; j < 16; j++) {
      v[c][j] = v[c][j] * factor * w[c][j];
      if (p.residual.data != nullptr) v[c][j] = added[c][j] + v[c][j];
      v[c][j] = at + j < width ? v[c][j] * p.factor : 0.0f;
    }
    if (at < width) store16(p.sum.data + (long long)row * p.sum.stride + at, width - at, v[c]);
  }
  if (p.second == 0) return;
  sync_block();  // block_sum has one place for its sums
  const float again = factor_of_kept(v, width, p.second_eps);
  FT_UNROLL for (int c = 0; c < kNormKept; c++) {
    const int first = c * 16 * kNormThreads, at = first + (int)threadIdx.x * 16;
    if (first >= width) continue;  // whole warps make codes
    FT_UNROLL for (int j = 0; j < 16; j++) v[c][j] = v[c][j] * again * second[c][j];
    if (at < width && p.out.data != nullptr)
      store16(p.out.data + (long long)row * p.out.stride + at, width - at, v[c]);
    if (p.codes.codes != nullptr) store_codes<16>(p.codes, row, at, v[c], at < width);
  }
}

// One block a row: its mean first, then the squares of the differences.
FT_KERNEL(layer_norm, LayerNormArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.x, width = p.in.width;
  const float* in = p.in.data + (long long)row * p.in.stride;
  float* out = p.out.data + (long long)row * p.out.stride;
  float sum = 0, squares = 0;
  for (int i = (int)threadIdx.x; i < width; i += kNormThreads) sum = sum + in[i];
  const float mean = block_sum(sum) / (float)width;
  for (int i = (int)threadIdx.x; i < width; i += kNormThreads)
    squares = fma_(in[i] - mean, in[i] - mean, squares);
  sync_block();  // block_sum has one place for its sums
  const float factor = 1.0f / sqrt_(block_sum(squares) / (float)width + p.eps);
  for (int i = (int)threadIdx.x; i < width; i += kNormThreads)
    out[i] = (in[i] - mean) * factor * p.weight[i] + p.bias[i];
}

// One warp a head of a row; eight warps a block.
FT_KERNEL(gated_norm, GatedNormArgs, 256) {
  begin_kernel();
  const int heads = p.in.width / p.head, item = (int)blockIdx.x * 8 + warp_of();
  if (item >= heads * p.rows) return;
  const int row = item / heads, at = item % heads * p.head;
  const float* in = p.in.data + (long long)row * p.in.stride + at;
  const float* gate = p.gate.data + (long long)row * p.gate.stride + at;
  float* out = p.out.data + (long long)row * p.out.stride + at;
  float sum = 0;
  for (int i = lane_of(); i < p.head; i += 32) sum = fma_(in[i], in[i], sum);
  const float factor = 1.0f / sqrt_(warp_sum(sum) / (float)p.head + p.eps);
  for (int i = lane_of(); i < p.head; i += 32) out[i] = in[i] * factor * p.weight[i] * silu(gate[i]);
}

FT_DEVICE void load4(const float* from, float (&v)[4]) {
  const float4 four = *(const float4*)from;
  v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}
FT_DEVICE void store4(float* to, const float (&v)[4]) { *(float4*)to = make_float4(v[0], v[1], v[2], v[3]); }

// Heads of 128 numbers and the codes of the linear after them: a warp a head, four neighbours a thread. It
// adds the squares in another order than gated_norm: which of the two a model takes depends on its shapes
// alone. x: 512 columns; y: row.
template <bool Halves>
FT_DEVICE void gated_norm_rows(GatedNormArgs p) {
  release_next();
  const int row = (int)blockIdx.y, at = ((int)blockIdx.x * 128 + (int)threadIdx.x) * 4;
  const bool live = at < p.codes.k;
  float v[4] = {0, 0, 0, 0}, gate[4] = {0, 0, 0, 0}, weight[4];
  load4(p.weight + at % 128, weight);
  wait_for_rows();
  if (live) {
    load4(p.in.data + (long long)row * p.in.stride + at, v);
    load4(p.gate.data + (long long)row * p.gate.stride + at, gate);
  }
  float sum = 0;
  FT_UNROLL for (int j = 0; j < 4; j++) sum = fma_(v[j], v[j], sum);
  const float factor = 1.0f / sqrt_(warp_sum(sum) / 128.0f + p.eps);
  FT_UNROLL for (int j = 0; j < 4; j++) v[j] = v[j] * factor * weight[j] * silu(gate[j]);
  if (live && p.out.data != nullptr) store4(p.out.data + (long long)row * p.out.stride + at, v);
  store_rows<Halves, 4>(p.codes, row, at, v, live);
}

FT_KERNEL(gated_norm_codes, GatedNormArgs, 128) { gated_norm_rows<false>(p); }
FT_KERNEL(gated_norm_half, GatedNormArgs, 128) { gated_norm_rows<true>(p); }

// x: 2,048 columns; y: row of the list.
template <bool Halves>
FT_DEVICE void quantise_rows(const QuantiseArgs& p) {
  begin_kernel();
  const int row = (int)blockIdx.y, from = p.rows == nullptr ? row : p.rows[row];
  const int at = ((int)blockIdx.x * 128 + (int)threadIdx.x) * 16;
  const bool live = at < p.out.k;
  float v[16];
  FT_UNROLL for (int j = 0; j < 16; j++) v[j] = 0;
  if (live) load16(p.in.data + (long long)from * p.in.stride + at, p.out.k - at, v);
  store_rows<Halves, 16>(p.out, row, at, v, live);
}

FT_KERNEL(quantise, QuantiseArgs, 128) { quantise_rows<false>(p); }
FT_KERNEL(quantise_half, QuantiseArgs, 128) { quantise_rows<true>(p); }

FT_KERNEL(swiglu, PairArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  const float gate = p.a.data[(long long)row * p.a.stride + i],
              up = p.b.data[(long long)row * p.b.stride + i];
  p.out.data[(long long)row * p.out.stride + i] = silu(gate) * up;
}

/// swiglu or geglu, and the codes of the linear after it. x: 512 columns; y: row.
template <bool Halves>
FT_DEVICE void pair_codes(const PairArgs& p, bool by_gelu) {
  const int row = (int)blockIdx.y, at = ((int)blockIdx.x * 128 + (int)threadIdx.x) * 4;
  const bool live = at < p.codes.k;
  float gate[4] = {0, 0, 0, 0}, up[4] = {0, 0, 0, 0};
  if (live) {
    load4(p.a.data + (long long)row * p.a.stride + at, gate);
    load4(p.b.data + (long long)row * p.b.stride + at, up);
    FT_UNROLL for (int j = 0; j < 4; j++) gate[j] = (by_gelu ? gelu(gate[j]) : silu(gate[j])) * up[j];
    if (p.out.data != nullptr) store4(p.out.data + (long long)row * p.out.stride + at, gate);
  }
  store_rows<Halves, 4>(p.codes, row, at, gate, live);
}

FT_KERNEL(swiglu_codes, PairArgs, 128) {
  begin_kernel();
  pair_codes<false>(p, false);
}
FT_KERNEL(swiglu_half, PairArgs, 128) {
  begin_kernel();
  pair_codes<true>(p, false);
}

FT_KERNEL(geglu_codes, PairArgs, 128) {
  begin_kernel();
  pair_codes<false>(p, true);
}
FT_KERNEL(geglu_half, PairArgs, 128) {
  begin_kernel();
  pair_codes<true>(p, true);
}

/// 0.5 x (1 + erf(x / sqrt 2)). Abramowitz and Stegun 7.1.26: absolute error of erf below 2e-7.
FT_DEVICE float gelu_erf(float x) {
  const float y = x * 0.70710678118f, size = magnitude(y);
  const float t = 1.0f / fma_(0.3275911f, size, 1.0f);
  float sum = 1.061405429f;
  sum = fma_(sum, t, -1.453152027f);
  sum = fma_(sum, t, 1.421413741f);
  sum = fma_(sum, t, -0.284496736f);
  sum = fma_(sum, t, 0.254829592f);
  const float erf = 1.0f - sum * t * exp_(-size * size);
  return 0.5f * x * (1.0f + (y < 0 ? -erf : erf));
}

FT_KERNEL(gelu_rows, GeluArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  const float x = p.in.data[(long long)row * p.in.stride + i];
  p.out.data[(long long)row * p.out.stride + i] = p.exact ? gelu_erf(x) : gelu(x);
}

FT_KERNEL(geglu, PairArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  const float x = p.a.data[(long long)row * p.a.stride + i], up = p.b.data[(long long)row * p.b.stride + i];
  p.out.data[(long long)row * p.out.stride + i] = gelu(x) * up;
}

FT_KERNEL(sigmoid_gate, PairArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  p.out.data[(long long)row * p.out.stride + i] =
      p.a.data[(long long)row * p.a.stride + i] * sigmoid(p.b.data[(long long)row * p.b.stride]);
}

FT_KERNEL(add, PairArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  p.out.data[(long long)row * p.out.stride + i] =
      p.a.data[(long long)row * p.a.stride + i] + p.b.data[(long long)row * p.b.stride + i];
}

FT_KERNEL(scale, ScaleArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  p.out.data[(long long)row * p.out.stride + i] = p.in.data[(long long)row * p.in.stride + i] * p.factor;
}

// cap * tanh(logit / cap), by the exponential of double: tanh y = (1 - e) / (1 + e) with e = exp(-2 |y|).
FT_KERNEL(soft_cap, SoftCapArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.logits.width) return;
  float& logit = p.logits.data[(long long)row * p.logits.stride + i];
  const double e = exp_of_negative(-2.0 * (double)magnitude(logit / p.cap));
  const float level = (float)((1.0 - e) / (1.0 + e));
  logit = p.cap * (logit < 0 ? -level : level);
}

FT_KERNEL(concat, ConcatArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  p.out.data[(long long)row * p.out.stride + i] = i < p.a.width
                                                      ? p.a.data[(long long)row * p.a.stride + i]
                                                      : p.b.data[(long long)row * p.b.stride + i - p.a.width];
}

FT_KERNEL(arrange, ArrangeArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.to.width) return;
  const int from = p.order == nullptr ? i : p.order[i];
  p.to.data[(long long)row * p.to.stride + i] = p.from.data[(long long)row * p.from.stride + from];
}

/// cos and sin of x >= 0 in double: reduced by multiples of pi / 2 in three parts, Taylor series of the rest.
FT_DEVICE void cosine_sine(double x, double& cosine, double& sine) {
  const double shifted = x * 0.63661977236758134308 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  double r = x - n * 1.57079632673412561417e+00;  // 33 bits of pi / 2
  r = r - n * 6.07710050630396597660e-11;
  r = r - n * 2.02226624879595063154e-21;
  const double z = r * r;
  double s = -1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = r + r * (s * z);
  double c = 1.0 / 20922789888000;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  c = 1.0 + c * z;
  const int quarter = (int)(bits_of(shifted) & 3);
  cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
  sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
}

FT_KERNEL(rotary, RotaryArgs, 128) {
  begin_kernel();
  const int item = (int)blockIdx.x * 128 + (int)threadIdx.x;
  if (item >= p.rows * p.half) return;
  const int row = item / p.half;
  const int j = item % p.half;
  const int turned_by = p.axes == nullptr ? p.step.positions[row] : p.step.coordinates[3 * row + p.axes[j]];
  const float angle = (float)turned_by * p.frequencies[j];
  double cosine = 0, sine = 0;
  cosine_sine((double)angle, cosine, sine);
  p.cosines[item] = (float)cosine * p.scale;
  p.sines[item] = (float)sine * p.scale;
}

}  // namespace ft::cuda
