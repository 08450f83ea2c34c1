// The exponential and functions built on it, norms, element-wise loops and the convolution, over the sixteen
// lanes of vec_*.h. Each kernels_*.cpp includes it once, after its vec_*.h. A partial vector runs the same
// operations on zero-filled lanes, so an element's result does not depend on its place. Error of exp: below 2
// units in the last place (Cephes expf's reduction and polynomial); results below 2^-126 become 2^-126.
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace ft::cpu::FT_ISA {

inline V exp(V x) {
  x = min(splat(88.0F), max(splat(-87.3F), x));
  const V n = round(mul(x, splat(1.44269504088896341F)));
  V r = fma(n, splat(-0.693359375F), x);
  r = fma(n, splat(2.12194440e-4F), r);
  V p = splat(1.9875691500e-4F);
  p = fma(p, r, splat(1.3981999507e-3F));
  p = fma(p, r, splat(8.3334519073e-3F));
  p = fma(p, r, splat(4.1665795894e-2F));
  p = fma(p, r, splat(1.6666665459e-1F));
  p = fma(p, r, splat(5.0000001201e-1F));
  p = add(fma(p, mul(r, r), r), splat(1.0F));
  return scale_by_power(p, n);
}

inline V sigmoid(V x) { return div(splat(1.0F), add(splat(1.0F), exp(sub(splat(0.0F), x)))); }
inline V silu(V x) { return div(x, add(splat(1.0F), exp(sub(splat(0.0F), x)))); }

/// x * (1 + tanh(u)) / 2 = x * sigmoid(2u), u = sqrt(2 / pi) * (x + 0.044715 x^3).
inline V gelu(V x) {
  const V cube = mul(mul(x, x), x);
  return mul(x, sigmoid(mul(splat(2.0F * 0.7978845608F), fma(splat(0.044715F), cube, x))));
}

/// Abramowitz and Stegun 7.1.26: absolute error below 2e-7.
inline V erf(V x) {
  const V size = max(x, sub(splat(0.0F), x));
  const V t = div(splat(1.0F), fma(splat(0.3275911F), size, splat(1.0F)));
  V p = splat(1.061405429F);
  p = fma(p, t, splat(-1.453152027F));
  p = fma(p, t, splat(1.421413741F));
  p = fma(p, t, splat(-0.284496736F));
  p = fma(p, t, splat(0.254829592F));
  const V positive = sub(splat(1.0F), mul(mul(p, t), exp(sub(splat(0.0F), mul(size, size)))));
  return div(mul(positive, x), max(size, splat(1e-30F)));  // with the sign of x
}

/// x * (1 + erf(x / sqrt(2))) / 2.
inline V gelu_erf(V x) {
  return mul(mul(splat(0.5F), x), add(splat(1.0F), erf(mul(x, splat(0.70710678118F)))));
}

/// Calls body(offset, load, store) for each vector; `load` and `store` are partial in the last one.
template <class Body>
inline void for_vectors(std::int64_t count, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    body(i, [](const float* p) { return load(p); }, [](float* p, V a) { store(p, a); });
  }
  if (i == count) return;
  const int rest = static_cast<int>(count - i);
  body(
      i, [rest](const float* p) { return load_partial(p, rest); },
      [rest](float* p, V a) { store_partial(p, a, rest); });
}

/// Sum of squares in four interleaved vectors, folded in order.
inline float square_sum(const float* in, int width) {
  V sums[4] = {splat(0), splat(0), splat(0), splat(0)};
  for_vectors(width, [&](std::int64_t i, auto get, auto) {
    const V x = get(in + i);
    V& part = sums[(i / kLanes) % 4];
    part = fma(x, x, part);
  });
  return sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

/// Sum of products, summed like square_sum.
inline float dot(const float* a, const float* b, int width) {
  V sums[4] = {splat(0), splat(0), splat(0), splat(0)};
  for_vectors(width, [&](std::int64_t i, auto get, auto) {
    V& part = sums[(i / kLanes) % 4];
    part = fma(get(a + i), get(b + i), part);
  });
  return sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

inline void rms_norm(const float* in, const float* weight, int width, float eps, float* out) {
  const V factor = splat(1.0F / __builtin_sqrtf(square_sum(in, width) / static_cast<float>(width) + eps));
  for_vectors(width, [&](std::int64_t i, auto get, auto put) {
    put(out + i, mul(mul(get(in + i), factor), get(weight + i)));
  });
}

/// Sum in four interleaved vectors, folded in order, of value(vector).
template <class Value>
inline float vector_sum(const float* in, int width, Value value) {
  V sums[4] = {splat(0), splat(0), splat(0), splat(0)};
  int i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    V& part = sums[(i / kLanes) % 4];
    part = add(part, value(load(in + i)));
  }
  float rest = 0;
  if (i < width) {  // the lanes beyond the end must stay zero, whatever value() gives for a zero
    float lanes[kLanes] = {};
    store(lanes, value(load_partial(in + i, width - i)));
    for (int j = width - i; j < kLanes; ++j) lanes[j] = 0;
    rest = sum(load(lanes));
  }
  return sum(add(add(sums[0], sums[1]), add(sums[2], sums[3]))) + rest;
}

inline void layer_norm(const float* in, const float* weight, const float* bias, int width, float eps,
                       float* out) {
  const auto count = static_cast<float>(width);
  const V mean = splat(vector_sum(in, width, [](V x) { return x; }) / count);
  const float squares = vector_sum(in, width, [&](V x) {
    const V difference = sub(x, mean);
    return mul(difference, difference);
  });
  const V factor = splat(1.0F / __builtin_sqrtf(squares / count + eps));
  for_vectors(width, [&](std::int64_t i, auto get, auto put) {
    put(out + i, fma(mul(sub(get(in + i), mean), factor), get(weight + i), get(bias + i)));
  });
}

inline void gated_norm(const float* in, const float* weight, const float* gate, int width, float eps,
                       float* out) {
  const V factor = splat(1.0F / __builtin_sqrtf(square_sum(in, width) / static_cast<float>(width) + eps));
  for_vectors(width, [&](std::int64_t i, auto get, auto put) {
    put(out + i, mul(mul(mul(get(in + i), factor), get(weight + i)), silu(get(gate + i))));
  });
}

inline void l2_norm(const float* in, int width, float scale, float* out) {
  const V factor = splat(scale / __builtin_sqrtf(square_sum(in, width) + 1e-6F));
  for_vectors(width, [&](std::int64_t i, auto get, auto put) { put(out + i, mul(get(in + i), factor)); });
}

inline void swiglu(const float* gate, const float* up, std::int64_t count, float* out) {
  for_vectors(count, [&](std::int64_t i, auto get, auto put) {
    put(out + i, mul(silu(get(gate + i)), get(up + i)));
  });
}

inline void geglu(const float* gate, const float* up, std::int64_t count, float* out) {
  for_vectors(count, [&](std::int64_t i, auto get, auto put) {
    put(out + i, mul(gelu(get(gate + i)), get(up + i)));
  });
}

inline void clamped_swiglu(const float* gate, const float* up, std::int64_t count, float alpha, float limit,
                           float* out) {
  const V high = splat(limit), low = splat(-limit), one = splat(1.0F);
  for_vectors(count, [&](std::int64_t i, auto get, auto put) {
    const V g = min(high, get(gate + i));
    const V u = min(high, max(low, get(up + i)));
    put(out + i, mul(mul(g, sigmoid(mul(splat(alpha), g))), add(u, one)));
  });
}

inline void gelu_rows(const float* in, std::int64_t count, bool exact, float* out) {
  for_vectors(count, [&](std::int64_t i, auto get, auto put) {
    const V x = get(in + i);
    put(out + i, exact ? gelu_erf(x) : gelu(x));
  });
}

/// tanh(x) = 2 * sigmoid(2x) - 1.
inline void softcap(float* values, std::int64_t count, float cap) {
  const V scale = splat(2.0F / cap);
  for_vectors(count, [&](std::int64_t i, auto get, auto put) {
    const V sigmoid_x = sigmoid(mul(scale, get(values + i)));
    put(values + i, mul(splat(cap), sub(add(sigmoid_x, sigmoid_x), splat(1.0F))));
  });
}

inline void add_rows(const float* a, const float* b, std::int64_t count, float* out) {
  for_vectors(count, [&](std::int64_t i, auto get, auto put) { put(out + i, add(get(a + i), get(b + i))); });
}

inline void add_scaled(const float* in, float factor, std::int64_t count, float* out) {
  for_vectors(count, [&](std::int64_t i, auto get, auto put) {
    put(out + i, fma(get(in + i), splat(factor), get(out + i)));
  });
}

inline void exponentials(const float* in, float less, std::int64_t count, float* out) {
  for_vectors(count,
              [&](std::int64_t i, auto get, auto put) { put(out + i, exp(sub(get(in + i), splat(less)))); });
}

inline void sigmoid_gate(const float* in, float gate, std::int64_t count, float* out) {
  const V factor = sigmoid(splat(gate));
  for_vectors(count, [&](std::int64_t i, auto get, auto put) { put(out + i, mul(get(in + i), factor)); });
}

inline void conv(const float* const* sources, const float* kernel, std::int64_t kernel_stride,
                 int kernel_width, int count, float* out) {
  for_vectors(count, [&](std::int64_t i, auto get, auto put) {
    V total = splat(0);
    for (int tap = 0; tap < kernel_width; ++tap) {
      if (sources[tap] != nullptr)
        total = fma(get(kernel + tap * kernel_stride + i), get(sources[tap] + i), total);
    }
    put(out + i, silu(total));
  });
}

}  // namespace ft::cpu::FT_ISA
