// Sixteen lanes in one AVX-512 register. Meaning of each function: vec_portable.h. With AVX512_VNNI a pair of
// 16-bit products is one instruction, without it two.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace ft::cpu::FT_ISA {

inline constexpr int kPassRows = 8;     // rows that one pass over a block keeps in registers
inline constexpr int kPassQueries = 4;  // queries, the same

struct V {
  __m512 r;
};
struct I {
  __m512i r;
};
struct Words {
  __m512i r;
};

inline __mmask16 lanes(int count) { return static_cast<__mmask16>((1U << count) - 1U); }

inline V splat(float x) { return {_mm512_set1_ps(x)}; }
inline V load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, V a) { _mm512_storeu_ps(p, a.r); }
inline V load_partial(const float* p, int count) { return {_mm512_maskz_loadu_ps(lanes(count), p)}; }
inline void store_partial(float* p, V a, int count) { _mm512_mask_storeu_ps(p, lanes(count), a.r); }
inline V add(V a, V b) { return {_mm512_add_ps(a.r, b.r)}; }
inline V sub(V a, V b) { return {_mm512_sub_ps(a.r, b.r)}; }
inline V mul(V a, V b) { return {_mm512_mul_ps(a.r, b.r)}; }
inline V div(V a, V b) { return {_mm512_div_ps(a.r, b.r)}; }
inline V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.r, b.r, c.r)}; }
inline V max(V a, V b) { return {_mm512_max_ps(a.r, b.r)}; }
inline V min(V a, V b) { return {_mm512_min_ps(a.r, b.r)}; }
inline V abs(V a) { return {_mm512_abs_ps(a.r)}; }
inline V round(V a) {
  const __m512 magic = _mm512_set1_ps(12582912.0F);
  return {_mm512_sub_ps(_mm512_add_ps(a.r, magic), magic)};
}
inline V scale_by_power(V a, V n) {
  const __m512i bits =
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.r), _mm512_set1_epi32(127)), 23);
  return {_mm512_mul_ps(a.r, _mm512_castsi512_ps(bits))};
}
inline float sum(V a) {
  const __m256 h8 = _mm256_add_ps(_mm512_castps512_ps256(a.r), _mm512_extractf32x8_ps(a.r, 1));
  const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
}
inline float largest(V a) {
  const __m256 h8 = _mm256_max_ps(_mm512_castps512_ps256(a.r), _mm512_extractf32x8_ps(a.r, 1));
  const __m128 h4 = _mm_max_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_max_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_max_ss(h2, _mm_movehdup_ps(h2)));
}
inline V from_bf16(const void* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline V from_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
inline void store_int16(std::int16_t* p, V a, I* total) {
  const __m256i narrow = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a.r));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow);
  total->r = _mm512_add_epi32(total->r, _mm512_cvtepi16_epi32(narrow));
}
inline I zero_int() { return {_mm512_setzero_si512()}; }
inline I add(I a, I b) { return {_mm512_add_epi32(a.r, b.r)}; }
inline std::int32_t sum(I a) { return _mm512_reduce_add_epi32(a.r); }
inline V to_float(I a) { return {_mm512_cvtepi32_ps(a.r)}; }

inline Words load_words(const void* p) { return {_mm512_loadu_si512(p)}; }
template <int kShift, int kMask>
inline Words field(Words a) {
  const __m512i moved = kShift == 0 ? a.r : _mm512_srli_epi16(a.r, kShift);
  if constexpr ((0xFFFF >> kShift) == kMask) return {moved};
  return {_mm512_and_si512(moved, _mm512_set1_epi16(kMask))};
}
inline I dot_pair(I a, Words w, const std::int16_t* x) {
  std::int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
#ifdef __AVX512VNNI__
  return {_mm512_dpwssd_epi32(a.r, w.r, _mm512_set1_epi32(pair))};
#else
  return {_mm512_add_epi32(a.r, _mm512_madd_epi16(w.r, _mm512_set1_epi32(pair)))};
#endif
}
[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace ft::cpu::FT_ISA
