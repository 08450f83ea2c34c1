// Sixteen lanes in two AVX registers (needs AVX2, FMA, F16C). vec_portable.h defines each function.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace ft::cpu::FT_ISA {

inline constexpr int kPassRows = 4;     // rows that one pass over a block keeps in registers
inline constexpr int kPassQueries = 2;  // queries per pass, likewise

struct V {
  __m256 lo, hi;
};
struct I {
  __m256i lo, hi;
};
struct Bytes {
  __m256i lo, hi;
};

inline V splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, V a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
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
inline V add(V a, V b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline V sub(V a, V b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline V mul(V a, V b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline V div(V a, V b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline V fma(V a, V b, V c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline V max(V a, V b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline V min(V a, V b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline V abs(V a) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
}
inline V round(V a) {
  const V magic = splat(12582912.0F);
  return sub(add(a, magic), magic);
}
inline V scale_by_power(V a, V n) {
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i lo = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.lo), bias), 23);
  const __m256i hi = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.hi), bias), 23);
  return mul(a, V{_mm256_castsi256_ps(lo), _mm256_castsi256_ps(hi)});
}
inline float sum(V a) {
  const __m256 h8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
}
inline float largest(V a) {
  const __m256 h8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 h4 = _mm_max_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_max_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_max_ss(h2, _mm_movehdup_ps(h2)));
}
inline V from_bf16(const void* p) {
  const auto* half = static_cast<const __m128i*>(p);
  const __m256i lo = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(half)), 16);
  const __m256i hi = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(half + 1)), 16);
  return {_mm256_castsi256_ps(lo), _mm256_castsi256_ps(hi)};
}
inline __m256 round_bf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7FFF)));
  return _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
}
inline V round_bf16(V a) { return {round_bf16(a.lo), round_bf16(a.hi)}; }
inline V from_f16(const void* p) {
  const auto* half = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}
inline V from_int8(const std::int8_t* p) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(all, all)))};
}
inline V from_e8m0(const void* p) {
  const auto* byte = static_cast<const __m128i*>(p);
  const __m128i all = _mm_loadu_si128(byte);
  const __m256i lo = _mm256_slli_epi32(_mm256_cvtepu8_epi32(all), 23);
  const __m256i hi = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(all, all)), 23);
  return {_mm256_castsi256_ps(lo), _mm256_castsi256_ps(hi)};
}
inline V from_e4m3(const void* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  const __m256i half =
      _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xBF80)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}
inline I to_int(V a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
inline void store_int8(std::int8_t* p, I a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline I zero_int() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline I add(I a, I b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
inline I sub(I a, I b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
inline I splat_int(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
template <int kShift>
inline I shift_left(I a) {
  return {_mm256_slli_epi32(a.lo, kShift), _mm256_slli_epi32(a.hi, kShift)};
}
template <int kShift>
inline I shift_right(I a) {
  return {_mm256_srai_epi32(a.lo, kShift), _mm256_srai_epi32(a.hi, kShift)};
}
inline std::int32_t sum(I a) {
  std::int32_t lane[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lane), _mm256_add_epi32(a.lo, a.hi));
  std::int32_t total = 0;
  for (const std::int32_t x : lane) total += x;
  return total;
}
inline V to_float(I a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

inline Bytes load_bytes(const void* p) {
  const auto* half = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(half), _mm256_loadu_si256(half + 1)};
}
inline void store_bytes(void* p, Bytes a) {
  auto* half = static_cast<__m256i*>(p);
  _mm256_storeu_si256(half, a.lo);
  _mm256_storeu_si256(half + 1, a.hi);
}
inline V even_bf16(Bytes a) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(a.lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(a.hi, 16))};
}
inline V odd_bf16(Bytes a) {
  const __m256i second = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  return {_mm256_castsi256_ps(_mm256_and_si256(a.lo, second)),
          _mm256_castsi256_ps(_mm256_and_si256(a.hi, second))};
}
template <int kShift, int kMask>
inline Bytes field(Bytes a) {
  if constexpr (kShift != 0) a = {_mm256_srli_epi16(a.lo, kShift), _mm256_srli_epi16(a.hi, kShift)};
  const __m256i mask = _mm256_set1_epi8(kMask);
  return {_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)};
}
template <int kShift>
inline Bytes join(Bytes low, Bytes high) {
  return {_mm256_or_si256(low.lo, _mm256_slli_epi16(high.lo, kShift)),
          _mm256_or_si256(low.hi, _mm256_slli_epi16(high.hi, kShift))};
}
inline Bytes lookup(Bytes index, const std::uint8_t* table) {
  const __m256i entries =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(entries, index.lo), _mm256_shuffle_epi8(entries, index.hi)};
}
template <bool kWide>
inline __m256i dot_half(__m256i a, __m256i w, __m256i x) {
#ifdef __AVXVNNI__
  return _mm256_dpbusd_avx_epi32(a, w, x);
#else
  if constexpr (kWide) {  // sums of two products may exceed 16 bits: even and odd columns apart
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(x, 8));
    return _mm256_add_epi32(a, _mm256_add_epi32(even, odd));
  } else {
    const __m256i pairs = _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(a, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
#endif
}
template <bool kWide>
inline I dot_quad(I a, Bytes w, const std::int8_t* x) {
  std::int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  const __m256i all = _mm256_set1_epi32(quad);
  return {dot_half<kWide>(a.lo, w.lo, all), dot_half<kWide>(a.hi, w.hi, all)};
}
[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace ft::cpu::FT_ISA
