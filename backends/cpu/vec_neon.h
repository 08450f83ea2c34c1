// Sixteen lanes in four NEON registers (AArch64). Meaning of each function: vec_portable.h. An I holds the
// products of even and odd words in separate lanes and adds the pairs when it is read.
#pragma once

#include <arm_neon.h>
#include <cstdint>

namespace ft::cpu::FT_ISA {

inline constexpr int kPassRows = 2;     // rows that one pass over a block keeps in registers
inline constexpr int kPassQueries = 2;  // queries, the same

struct V {
  float32x4_t r[4];
};
struct I {
  int32x4_t r[8];  // r[2j], r[2j + 1]: words of lanes 4j .. 4j + 3, two to a lane
};
struct Words {
  int16x8_t r[4];
};

#define FT_QUARTERS(expression)                        \
  V out;                                               \
  for (int i = 0; i < 4; ++i) out.r[i] = (expression); \
  return out

inline V splat(float x) { FT_QUARTERS(vdupq_n_f32(x)); }
inline V load(const float* p) { FT_QUARTERS(vld1q_f32(p + 4 * i)); }
inline void store(float* p, V a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.r[i]);
}
inline V load_partial(const float* p, int count) {
  float lane[16] = {};
  for (int i = 0; i < count; ++i) lane[i] = p[i];
  return load(lane);
}
inline void store_partial(float* p, V a, int count) {
  float lane[16];
  store(lane, a);
  for (int i = 0; i < count; ++i) p[i] = lane[i];
}
inline V add(V a, V b) { FT_QUARTERS(vaddq_f32(a.r[i], b.r[i])); }
inline V sub(V a, V b) { FT_QUARTERS(vsubq_f32(a.r[i], b.r[i])); }
inline V mul(V a, V b) { FT_QUARTERS(vmulq_f32(a.r[i], b.r[i])); }
inline V div(V a, V b) { FT_QUARTERS(vdivq_f32(a.r[i], b.r[i])); }
inline V fma(V a, V b, V c) { FT_QUARTERS(vfmaq_f32(c.r[i], a.r[i], b.r[i])); }
inline V max(V a, V b) { FT_QUARTERS(vbslq_f32(vcgtq_f32(a.r[i], b.r[i]), a.r[i], b.r[i])); }
inline V min(V a, V b) { FT_QUARTERS(vbslq_f32(vcltq_f32(a.r[i], b.r[i]), a.r[i], b.r[i])); }
inline V abs(V a) { FT_QUARTERS(vabsq_f32(a.r[i])); }
inline V round(V a) { FT_QUARTERS(vrndnq_f32(a.r[i])); }
inline V scale_by_power(V a, V n) {
  FT_QUARTERS(vmulq_f32(
      a.r[i], vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n.r[i]), vdupq_n_s32(127)), 23))));
}
inline float sum(V a) {
  const float32x4_t h4 = vaddq_f32(vaddq_f32(a.r[0], a.r[2]), vaddq_f32(a.r[1], a.r[3]));
  const float32x2_t h2 = vadd_f32(vget_low_f32(h4), vget_high_f32(h4));
  return vget_lane_f32(h2, 0) + vget_lane_f32(h2, 1);
}
inline float largest(V a) {
  const V folded = max(a, V{{a.r[2], a.r[3], a.r[0], a.r[1]}});
  return vmaxvq_f32(vmaxq_f32(folded.r[0], folded.r[1]));
}
inline V from_bf16(const void* p) {
  const auto* half = static_cast<const std::uint16_t*>(p);
  FT_QUARTERS(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(half + 4 * i), 16)));
}
inline V from_f16(const void* p) {
  const auto* half = static_cast<const std::uint16_t*>(p);
  FT_QUARTERS(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(half + 4 * i))));
}
inline void store_int16(std::int16_t* p, V a, I* total) {
  for (int i = 0; i < 4; ++i) {
    const int16x4_t narrow = vqmovn_s32(vcvtnq_s32_f32(a.r[i]));
    vst1_s16(p + 4 * i, narrow);
    total->r[i] = vaddw_s16(total->r[i], narrow);
  }
}
inline I zero_int() {
  I out;
  for (int32x4_t& part : out.r) part = vdupq_n_s32(0);
  return out;
}
inline I add(I a, I b) {
  for (int i = 0; i < 8; ++i) a.r[i] = vaddq_s32(a.r[i], b.r[i]);
  return a;
}
inline std::int32_t sum(I a) {
  std::int32_t total = 0;
  for (const int32x4_t part : a.r) total += vaddvq_s32(part);
  return total;
}
inline V to_float(I a) { FT_QUARTERS(vcvtq_f32_s32(vpaddq_s32(a.r[2 * i], a.r[2 * i + 1]))); }

inline Words load_words(const void* p) {
  const auto* from = static_cast<const std::int16_t*>(p);
  return {{vld1q_s16(from), vld1q_s16(from + 8), vld1q_s16(from + 16), vld1q_s16(from + 24)}};
}
template <int kShift, int kMask>
inline Words field(Words a) {
  for (int16x8_t& part : a.r) {
    uint16x8_t bits = vreinterpretq_u16_s16(part);
    if constexpr (kShift != 0) bits = vshrq_n_u16(bits, kShift);
    if constexpr ((0xFFFF >> kShift) != kMask) bits = vandq_u16(bits, vdupq_n_u16(kMask));
    part = vreinterpretq_s16_u16(bits);
  }
  return a;
}
inline I dot_pair(I a, Words w, const std::int16_t* x) {
  std::int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  const int16x8_t both = vreinterpretq_s16_s32(vdupq_n_s32(pair));
  for (int i = 0; i < 4; ++i) {
    a.r[2 * i] = vmlal_s16(a.r[2 * i], vget_low_s16(w.r[i]), vget_low_s16(both));
    a.r[2 * i + 1] = vmlal_high_s16(a.r[2 * i + 1], w.r[i], both);
  }
  return a;
}
[[gnu::always_inline]] inline void prefetch(const void* p) { __builtin_prefetch(p); }

#undef FT_QUARTERS

}  // namespace ft::cpu::FT_ISA
