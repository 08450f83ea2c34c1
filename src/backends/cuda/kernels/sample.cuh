// Shared by the kernels that turn logits into tokens: noise, the best of a block, masses of top-p.
#pragma once

#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

constexpr int kSampleThreads = 256;

FT_DEVICE float negative_infinity() { return float_of(0xff800000u); }
FT_DEVICE float largest_float() { return float_of(0x7f7fffffu); }

/// A logit as sampling sees it: NaN never, infinity the largest float.
FT_DEVICE float seen_logit(float value) {
  if (!(value > negative_infinity())) return negative_infinity();
  return value > largest_float() ? largest_float() : value;
}

FT_DEVICE double tempered(float value, float highest, float temperature) {
  return ((double)value - (double)highest) / (double)temperature;
}

struct Words {
  u32 w[4];
};
/// Philox 4x32-10 (sampling/philox.h).
FT_DEVICE Words philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
  for (int round = 0; round < 10; round++) {
    const u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
    const u32 n0 = (u32)(b >> 32) ^ c1 ^ k0, n2 = (u32)(a >> 32) ^ c3 ^ k1;
    c0 = n0, c1 = (u32)b, c2 = n2, c3 = (u32)a;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

FT_DEVICE double gumbel(const SamplePlace& s, int token) {
  const u32 low = (u32)s.position, high = (u32)((u64)s.position >> 32), id = (u32)token;
  const u32 k0 = (u32)s.seed, k1 = (u32)(s.seed >> 32), stream = 2 * (u32)s.stream;
  const u32 upper = philox(id / 4, low, high, stream, k0, k1).w[id % 4];
  const u32 lower = philox(id / 4, low, high, stream + 1, k0, k1).w[id % 4];
  const u64 cell = (u64)upper << 20 | lower >> 12;
  const double uniform = (double)(2 * cell + 1) * 1.1102230246251565e-16;  // 2^-53
  return -log_of_positive(-log_of_positive(uniform));
}

/// A score and its token; take() keeps the greater score, of equal ones the lower token.
struct Offer {
  double score;
  int token;
  FT_DEVICE_MEMBER void take(double other, int candidate) {
    if (other > score || (other == score && candidate < token)) score = other, token = candidate;
  }
};
FT_DEVICE double shuffle_xor(double value, int distance) {
  const u64 bits = bits_of(value);
  const u32 low = (u32)shuffle_xor((int)(u32)bits, distance);
  const u32 high = (u32)shuffle_xor((int)(u32)(bits >> 32), distance);
  return double_of((u64)high << 32 | low);
}
constexpr int kNoToken = 0x7fffffff;

/// Over a block of 256 threads, the same in each of them.
FT_DEVICE Offer best_of_block(Offer own) {
  FT_SHARED double scores[kSampleThreads / 32];
  FT_SHARED int tokens[kSampleThreads / 32];
  for (int distance = 16; distance > 0; distance >>= 1) {
    const double score = shuffle_xor(own.score, distance);
    const int token = shuffle_xor(own.token, distance);
    own.take(score, token);
  }
  sync_block();
  if (lane_of() == 0) scores[warp_of()] = own.score, tokens[warp_of()] = own.token;
  sync_block();
  for (int i = 0; i < kSampleThreads / 32; i++) own.take(scores[i], tokens[i]);
  return own;
}

FT_DEVICE double never() { return double_of(0xfff0000000000000ull); }

/// The highest logit of the row and its first column.
FT_DEVICE Offer highest_of(const SampleArgs& p, int row) {
  Offer best = {never(), kNoToken};
  for (int i = (int)threadIdx.x; i < p.parts; i += kSampleThreads)
    best.take((double)p.tops[row * p.parts + i], p.top_places[row * p.parts + i]);
  return best_of_block(best);
}

FT_DEVICE void store_token(const SampleArgs& p, int row, int token) {
  p.sampled[row] = token;
  const int place = p.step.samples[row].store;
  if (place < 0) return;
  p.step.round[place] = token;
  p.mirror[place] = token;
}

FT_DEVICE int token_at(const int* ids, int column) { return ids == nullptr ? column : ids[column]; }

/// A weight in multiples of 2^-44 (sampling/filters.cpp).
FT_DEVICE u64 mass_of(double weight) {
  return bits_of(weight * 17592186044416.0 + 4503599627370496.0) - bits_of(4503599627370496.0);
}

/// How many of the candidates in order top-p keeps.
FT_DEVICE int keep_mass(const double* weights, int count, float top_p) {
  u64 whole = 0;
  for (int i = 0; i < count; i++) whole += mass_of(weights[i]);
  const double share = (double)top_p * (double)whole;
  u64 need = share > 1 ? (u64)share : 1;
  for (int i = 0; i < count; i++) {
    const u64 own = mass_of(weights[i]);
    if (own >= need) return i + 1;
    need -= own;
  }
  return count;
}

}  // namespace ft::cuda
