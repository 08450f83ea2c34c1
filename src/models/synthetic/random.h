// Random numbers of synthetic models: a stream is a function of (seed, name) alone. One stream per thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace ft {

/// xoshiro256++ (Blackman and Vigna 2019), seeded by splitmix64.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 1469598103934665603U ^ seed;  // FNV-1a
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    for (std::uint64_t& word : state_) {
      hash += 0x9E3779B97F4A7C15U;
      std::uint64_t mixed = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9U;
      mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
      word = mixed ^ (mixed >> 31);
    }
  }
  std::uint64_t next() {
    const auto turned = [](std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); };
    const std::uint64_t result = turned(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0], state_[3] ^= state_[1], state_[1] ^= state_[2], state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = turned(state_[3], 45);
    return result;
  }
  /// [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  /// Mean 0, deviation 1, nearly normal: the sum of four uniforms.
  float wake() { return (uniform() + uniform() + uniform() + uniform() - 2.0F) * 1.7320508F; }

 private:
  std::uint64_t state_[4];
};

}  // namespace ft
