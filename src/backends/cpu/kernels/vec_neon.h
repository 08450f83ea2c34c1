// Sixteen lanes in four NEON registers (AArch64). vec_portable.h defines each function. Four 8-bit
// products are one instruction with dotprod; codes above 127 also need i8mm.
#pragma once

#include <arm_neon.h>
#include <cstdint>

namespace ft::cpu::FT_ISA {

inline constexpr int kPassRows = 2;     // rows that one pass over a block keeps in registers
inline constexpr int kPassQueries = 2;  // queries per pass, likewise

struct V {
  float32x4_t r[4];
};
struct I {
  int32x4_t r[4];
};
struct Bytes {
  uint8x16_t r[4];  // four columns of four outputs
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
inline V round_bf16(V a) {
  for (float32x4_t& part : a.r) {
    const uint32x4_t bits = vreinterpretq_u32_f32(part);
    const uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(bits, vaddq_u32(last, vdupq_n_u32(0x7FFF)));
    part = vreinterpretq_f32_u32(vandq_u32(up, vdupq_n_u32(0xFFFF0000U)));
  }
  return a;
}
inline V from_f16(const void* p) {
  const auto* half = static_cast<const std::uint16_t*>(p);
  FT_QUARTERS(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(half + 4 * i))));
}
inline V from_int8(const std::int8_t* p) {
  const int8x16_t all = vld1q_s8(p);
  const int16x8_t half[2] = {vmovl_s8(vget_low_s8(all)), vmovl_high_s8(all)};
  FT_QUARTERS(vcvtq_f32_s32(i % 2 == 0 ? vmovl_s16(vget_low_s16(half[i / 2])) : vmovl_high_s16(half[i / 2])));
}
inline V from_e8m0(const void* p) {
  const uint8x16_t all = vld1q_u8(static_cast<const std::uint8_t*>(p));
  const uint16x8_t half[2] = {vmovl_u8(vget_low_u8(all)), vmovl_high_u8(all)};
  FT_QUARTERS(vreinterpretq_f32_u32(
      vshlq_n_u32(i % 2 == 0 ? vmovl_u16(vget_low_u16(half[i / 2])) : vmovl_high_u16(half[i / 2]), 23)));
}
inline V from_e4m3(const void* p) {
  const int8x16_t all = vld1q_s8(static_cast<const std::int8_t*>(p));
  std::uint16_t half[16];
  const uint16x8_t mask = vdupq_n_u16(0xBF80);
  vst1q_u16(half, vandq_u16(vreinterpretq_u16_s16(vshll_n_s8(vget_low_s8(all), 7)), mask));
  vst1q_u16(half + 8, vandq_u16(vreinterpretq_u16_s16(vshll_high_n_s8(all, 7)), mask));
  return from_f16(half);
}
inline I to_int(V a) {
  I out;
  for (int i = 0; i < 4; ++i) out.r[i] = vcvtnq_s32_f32(a.r[i]);
  return out;
}
inline void store_int8(std::int8_t* p, I a) {
  const int16x8_t low = vcombine_s16(vqmovn_s32(a.r[0]), vqmovn_s32(a.r[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(a.r[2]), vqmovn_s32(a.r[3]));
  vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}
inline I zero_int() {
  I out;
  for (int32x4_t& part : out.r) part = vdupq_n_s32(0);
  return out;
}
inline I add(I a, I b) {
  for (int i = 0; i < 4; ++i) a.r[i] = vaddq_s32(a.r[i], b.r[i]);
  return a;
}
inline I sub(I a, I b) {
  for (int i = 0; i < 4; ++i) a.r[i] = vsubq_s32(a.r[i], b.r[i]);
  return a;
}
inline I splat_int(std::int32_t x) {
  I out;
  for (int32x4_t& part : out.r) part = vdupq_n_s32(x);
  return out;
}
template <int kShift>
inline I shift_left(I a) {
  for (int32x4_t& part : a.r) part = vshlq_n_s32(part, kShift);
  return a;
}
template <int kShift>
inline I shift_right(I a) {
  for (int32x4_t& part : a.r) part = vshrq_n_s32(part, kShift);
  return a;
}
inline std::int32_t sum(I a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.r[0], a.r[1]), vaddq_s32(a.r[2], a.r[3])));
}
inline V to_float(I a) { FT_QUARTERS(vcvtq_f32_s32(a.r[i])); }

inline Bytes load_bytes(const void* p) {
  const auto* from = static_cast<const std::uint8_t*>(p);
  return {{vld1q_u8(from), vld1q_u8(from + 16), vld1q_u8(from + 32), vld1q_u8(from + 48)}};
}
inline void store_bytes(void* p, Bytes a) {
  for (int i = 0; i < 4; ++i) vst1q_u8(static_cast<std::uint8_t*>(p) + 16 * i, a.r[i]);
}
inline V even_bf16(Bytes a) {
  FT_QUARTERS(vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u8(a.r[i]), 16)));
}
inline V odd_bf16(Bytes a) {
  FT_QUARTERS(vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u8(a.r[i]), vdupq_n_u32(0xFFFF0000U))));
}
template <int kShift, int kMask>
inline Bytes field(Bytes a) {
  for (uint8x16_t& part : a.r) {
    if constexpr (kShift != 0) part = vshrq_n_u8(part, kShift);
    if constexpr ((0xFF >> kShift) != kMask) part = vandq_u8(part, vdupq_n_u8(kMask));
  }
  return a;
}
template <int kShift>
inline Bytes join(Bytes low, Bytes high) {
  for (int i = 0; i < 4; ++i) low.r[i] = vorrq_u8(low.r[i], vshlq_n_u8(high.r[i], kShift));
  return low;
}
inline Bytes lookup(Bytes index, const std::uint8_t* table) {
  const uint8x16_t entries = vld1q_u8(table);
  for (uint8x16_t& part : index.r) part = vqtbl1q_u8(entries, part);
  return index;
}
/// Four products of one quarter, without the later extensions.
inline int32x4_t dot_plain(int32x4_t a, uint8x16_t w, int8x16_t x) {
  const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(w)));
  const int16x8_t high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(w)));
  const int16x8_t by = vmovl_s8(vget_low_s8(x));
  const int32x4_t first = vpaddq_s32(vmull_s16(vget_low_s16(low), vget_low_s16(by)), vmull_high_s16(low, by));
  const int32x4_t second =
      vpaddq_s32(vmull_s16(vget_low_s16(high), vget_low_s16(by)), vmull_high_s16(high, by));
  return vaddq_s32(a, vpaddq_s32(first, second));
}
template <bool kWide>
inline I dot_quad(I a, Bytes w, const std::int8_t* x) {
  std::int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  const int8x16_t all = vreinterpretq_s8_s32(vdupq_n_s32(quad));
  for (int i = 0; i < 4; ++i) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    a.r[i] = vusdotq_s32(a.r[i], w.r[i], all);
#elif defined(__ARM_FEATURE_DOTPROD)
    if constexpr (kWide) {  // w = (w - 128) + 128, both parts signed bytes
      const int8x16_t low = vreinterpretq_s8_u8(veorq_u8(w.r[i], vdupq_n_u8(128)));
      const int32x4_t sums = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(1), all);
      a.r[i] = vaddq_s32(vdotq_s32(a.r[i], low, all), vshlq_n_s32(sums, 7));
    } else {
      a.r[i] = vdotq_s32(a.r[i], vreinterpretq_s8_u8(w.r[i]), all);
    }
#else
    a.r[i] = dot_plain(a.r[i], w.r[i], all);
#endif
  }
  return a;
}
[[gnu::always_inline]] inline void prefetch(const void* p) { __builtin_prefetch(p); }

#undef FT_QUARTERS

}  // namespace ft::cpu::FT_ISA
