// Sixteen lanes in one AVX-512 register. vec_portable.h defines each function. Four 8-bit products
// are one instruction with AVX512_VNNI and three without it; two bf16 products are one with AVX512_BF16.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace ft::cpu::FT_ISA {

inline constexpr int kPassRows = 8;     // rows that one pass over a block keeps in registers
inline constexpr int kPassQueries = 8;  // queries per pass, likewise

struct V {
  __m512 r;
};
struct I {
  __m512i r;
};
struct Bytes {
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
inline V round_bf16(V a) {
  const __m512i bits = _mm512_castps_si512(a.r);
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7FFF)));
  return {_mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))))};
}
inline V from_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
inline V from_int8(const std::int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline V from_e8m0(const void* p) {
  const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 23))};
}
inline V from_e4m3(const void* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  const __m256i sign_and_magnitude = _mm256_set1_epi16(static_cast<short>(0xBF80));
  return {_mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(wide, 7), sign_and_magnitude))};
}
inline I to_int(V a) { return {_mm512_cvtps_epi32(a.r)}; }
inline void store_int8(std::int8_t* p, I a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.r));
}
inline I zero_int() { return {_mm512_setzero_si512()}; }
inline I add(I a, I b) { return {_mm512_add_epi32(a.r, b.r)}; }
inline I sub(I a, I b) { return {_mm512_sub_epi32(a.r, b.r)}; }
inline I splat_int(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
template <int kShift>
inline I shift_left(I a) {
  return {_mm512_slli_epi32(a.r, kShift)};
}
template <int kShift>
inline I shift_right(I a) {
  return {_mm512_srai_epi32(a.r, kShift)};
}
inline std::int32_t sum(I a) { return _mm512_reduce_add_epi32(a.r); }
inline V to_float(I a) { return {_mm512_cvtepi32_ps(a.r)}; }

inline Bytes load_bytes(const void* p) { return {_mm512_loadu_si512(p)}; }
inline void store_bytes(void* p, Bytes a) { _mm512_storeu_si512(p, a.r); }
inline V even_bf16(Bytes a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.r, 16))}; }
inline V odd_bf16(Bytes a) {
  return {_mm512_castsi512_ps(_mm512_and_si512(a.r, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))))};
}
#ifdef __AVX512BF16__
/// Stores the upper halves of 16 floats.
inline void store_bf16(void* p, V a) {
  const __m512i upper = _mm512_srli_epi32(_mm512_castps_si512(a.r), 16);
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(upper));
}
/// fma(even, x, fma(odd, x, a)), each rounded to nearest even, with denormal numbers as zeros
/// (docs/decisions/011).
inline V dot_pair(V a, Bytes w, Bytes x) {
  return {_mm512_dpbf16_ps(a.r, reinterpret_cast<__m512bh>(w.r), reinterpret_cast<__m512bh>(x.r))};
}
/// The same four bytes in every lane.
inline Bytes splat_bytes(const void* p) {
  std::int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return {_mm512_set1_epi32(four)};
}
#endif
template <int kShift, int kMask>
inline Bytes field(Bytes a) {
  const __m512i moved = kShift == 0 ? a.r : _mm512_srli_epi16(a.r, kShift);
  return {_mm512_and_si512(moved, _mm512_set1_epi8(kMask))};
}
template <int kShift>
inline Bytes join(Bytes low, Bytes high) {
  return {_mm512_or_si512(low.r, _mm512_slli_epi16(high.r, kShift))};
}
inline Bytes lookup(Bytes index, const std::uint8_t* table) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), index.r)};
}
template <bool kWide>
inline I dot_quad(I a, Bytes w, const std::int8_t* x) {
  std::int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  const __m512i all = _mm512_set1_epi32(quad);
#ifdef __AVX512VNNI__
  return {_mm512_dpbusd_epi32(a.r, w.r, all)};
#else
  if constexpr (kWide) {  // sums of two products may exceed 16 bits: even and odd columns apart
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(w.r, _mm512_set1_epi16(255)),
                                           _mm512_srai_epi16(_mm512_slli_epi16(all, 8), 8));
    const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(w.r, 8), _mm512_srai_epi16(all, 8));
    return {_mm512_add_epi32(a.r, _mm512_add_epi32(even, odd))};
  } else {
    const __m512i pairs = _mm512_maddubs_epi16(w.r, all);
    return {_mm512_add_epi32(a.r, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
  }
#endif
}
[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace ft::cpu::FT_ISA
