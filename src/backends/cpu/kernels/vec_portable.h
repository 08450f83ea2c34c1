// Sixteen lanes in plain C++: the meaning of every instruction set's V, I and Bytes, lane by lane. The other
// vec_*.h give the same bits: the same operations in the same order, fused where `fma` says so, and sums
// folded in halves. It does not use the standard library, because an inline function compiled with an
// instruction set's flags must not be shared.
#pragma once

#include <cstdint>

namespace ft::cpu::FT_ISA {

inline constexpr int kPassRows = 1;     // rows that one pass over a block keeps in registers
inline constexpr int kPassQueries = 1;  // queries per pass, likewise

struct V {
  float lane[16];
};
struct I {
  std::int32_t lane[16];
};
/// Four columns of sixteen outputs: byte 4 * output + column.
struct Bytes {
  std::uint8_t lane[64];
};

#define FT_LANES(expression)                               \
  V out;                                                   \
  for (int i = 0; i < 16; ++i) out.lane[i] = (expression); \
  return out

inline V splat(float x) { FT_LANES(x); }
inline V load(const float* p) { FT_LANES(p[i]); }
inline void store(float* p, V a) {
  for (int i = 0; i < 16; ++i) p[i] = a.lane[i];
}
inline V load_partial(const float* p, int count) { FT_LANES(i < count ? p[i] : 0.0F); }
inline void store_partial(float* p, V a, int count) {
  for (int i = 0; i < count; ++i) p[i] = a.lane[i];
}
inline V add(V a, V b) { FT_LANES(a.lane[i] + b.lane[i]); }
inline V sub(V a, V b) { FT_LANES(a.lane[i] - b.lane[i]); }
inline V mul(V a, V b) { FT_LANES(a.lane[i] * b.lane[i]); }
inline V div(V a, V b) { FT_LANES(a.lane[i] / b.lane[i]); }
inline V fma(V a, V b, V c) { FT_LANES(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i])); }
/// Returns the second operand if either is NaN.
inline V max(V a, V b) { FT_LANES(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
inline V min(V a, V b) { FT_LANES(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
inline V abs(V a) { FT_LANES(__builtin_fabsf(a.lane[i])); }
/// Nearest integer, ties to even, for |a| < 2^22.
inline V round(V a) { FT_LANES((a.lane[i] + 12582912.0F) - 12582912.0F); }
/// a * 2^n for whole n in [-126, 127] and a in [0.5, 2].
inline V scale_by_power(V a, V n) {
  V out;
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(n.lane[i]) + 127) << 23;
    float power;
    __builtin_memcpy(&power, &bits, sizeof power);
    out.lane[i] = a.lane[i] * power;
  }
  return out;
}
inline float sum(V a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.lane[i] = a.lane[i] + a.lane[i + half];
  }
  return a.lane[0];
}
inline float largest(V a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
  }
  return a.lane[0];
}
inline V from_bf16(const void* p) {
  V out;
  std::uint16_t half[16];
  __builtin_memcpy(half, p, sizeof half);
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(half[i]) << 16;
    __builtin_memcpy(&out.lane[i], &bits, sizeof bits);
  }
  return out;
}
/// The nearest bf16, ties to even; an arithmetic NaN stays a NaN.
inline V round_bf16(V a) {
  for (float& lane : a.lane) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &lane, sizeof bits);
    bits = (bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U;
    __builtin_memcpy(&lane, &bits, sizeof bits);
  }
  return a;
}
inline V from_f16(const void* p) {
  V out;
  std::uint16_t half[16];
  __builtin_memcpy(half, p, sizeof half);
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half[i] & 0x8000U) << 16;
    const std::uint32_t exponent = (half[i] >> 10) & 31U;
    const std::uint32_t mantissa = half[i] & 1023U;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
      out.lane[i] = sign != 0 ? -magnitude : magnitude;
      continue;
    }
    const std::uint32_t bits = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (mantissa << 13);
    __builtin_memcpy(&out.lane[i], &bits, sizeof bits);
  }
  return out;
}
inline V from_int8(const std::int8_t* p) { FT_LANES(static_cast<float>(p[i])); }
/// 16 e8m0 bytes e: 2^(e - 127), and zero for e = 0.
inline V from_e8m0(const void* p) {
  V out;
  std::uint8_t byte[16];
  __builtin_memcpy(byte, p, sizeof byte);
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(byte[i]) << 23;
    __builtin_memcpy(&out.lane[i], &bits, sizeof bits);
  }
  return out;
}
/// 16 e4m3 bytes: 2^-8 of their values, which is their bits read as part of a float16.
inline V from_e4m3(const void* p) {
  std::uint8_t byte[16];
  std::uint16_t half[16];
  __builtin_memcpy(byte, p, sizeof byte);
  for (int i = 0; i < 16; ++i) {
    half[i] = static_cast<std::uint16_t>((byte[i] & 0x80U) << 8 | (byte[i] & 0x7FU) << 7);
  }
  return from_f16(half);
}
/// Nearest integer, ties to even, for |a| < 2^22; the lowest integer for values beyond it and for NaN.
inline I to_int(V a) {
  I out;
  for (int i = 0; i < 16; ++i) {
    const float r = (a.lane[i] + 12582912.0F) - 12582912.0F;
    out.lane[i] = r > -4194304.0F && r < 4194304.0F ? static_cast<std::int32_t>(r) : INT32_MIN;
  }
  return out;
}
/// Stores 16 int8, saturated.
inline void store_int8(std::int8_t* p, I a) {
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<std::int8_t>(a.lane[i] > 127 ? 127 : a.lane[i] < -128 ? -128 : a.lane[i]);
  }
}
inline I zero_int() { return I{}; }
inline I add(I a, I b) {
  for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
  return a;
}
inline I sub(I a, I b) {
  for (int i = 0; i < 16; ++i) a.lane[i] -= b.lane[i];
  return a;
}
inline I splat_int(std::int32_t x) {
  I out;
  for (std::int32_t& lane : out.lane) lane = x;
  return out;
}
template <int kShift>
inline I shift_left(I a) {
  for (std::int32_t& lane : a.lane)
    lane = static_cast<std::int32_t>(static_cast<std::uint32_t>(lane) << kShift);
  return a;
}
/// Arithmetic shift.
template <int kShift>
inline I shift_right(I a) {
  for (std::int32_t& lane : a.lane) lane >>= kShift;
  return a;
}
inline std::int32_t sum(I a) {
  std::int32_t total = 0;
  for (const std::int32_t x : a.lane) total += x;
  return total;
}
inline V to_float(I a) { FT_LANES(static_cast<float>(a.lane[i])); }

inline Bytes load_bytes(const void* p) {
  Bytes out;
  __builtin_memcpy(&out, p, sizeof out);
  return out;
}
inline void store_bytes(void* p, Bytes a) { __builtin_memcpy(p, &a, sizeof a); }
/// Pairs of bf16: the first of each pair, and the second.
inline V even_bf16(Bytes a) {
  V out;
  for (int i = 0; i < 16; ++i) {
    const std::uint8_t bytes[4] = {0, 0, a.lane[4 * i], a.lane[4 * i + 1]};
    __builtin_memcpy(&out.lane[i], bytes, sizeof bytes);
  }
  return out;
}
inline V odd_bf16(Bytes a) {
  V out;
  for (int i = 0; i < 16; ++i) {
    const std::uint8_t bytes[4] = {0, 0, a.lane[4 * i + 2], a.lane[4 * i + 3]};
    __builtin_memcpy(&out.lane[i], bytes, sizeof bytes);
  }
  return out;
}
/// (byte >> kShift) & kMask, byte by byte; kMask has at most 8 - kShift bits.
template <int kShift, int kMask>
inline Bytes field(Bytes a) {
  for (std::uint8_t& byte : a.lane) byte = static_cast<std::uint8_t>((byte >> kShift) & kMask);
  return a;
}
/// low | high << kShift; no bit of `high` leaves its byte.
template <int kShift>
inline Bytes join(Bytes low, Bytes high) {
  for (int i = 0; i < 64; ++i)
    low.lane[i] = static_cast<std::uint8_t>(low.lane[i] | (high.lane[i] << kShift));
  return low;
}
/// table[index], index 0 .. 15.
inline Bytes lookup(Bytes index, const std::uint8_t* table) {
  for (std::uint8_t& byte : index.lane) byte = table[byte & 15];
  return index;
}
/// Lane r: a + the sum over four columns j of w[4r + j] * x[j]. If not kWide, every w is below 128.
template <bool kWide>
inline I dot_quad(I a, Bytes w, const std::int8_t* x) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) a.lane[i] += w.lane[4 * i + j] * x[j];
  }
  return a;
}
// Always inlined, because g++ assumes that a call has no effect and drops it.
[[gnu::always_inline]] inline void prefetch(const void* p) { __builtin_prefetch(p); }

#undef FT_LANES

}  // namespace ft::cpu::FT_ISA
