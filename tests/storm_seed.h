// Seeds of randomised tests. The usual run repeats the same storms. FORETOKEN_FULL=1 runs new ones each time
// and prints what repeats them: FORETOKEN_SEED=N.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace ft::test {

/// Added to every seed of a randomised test; 0 in the usual run.
inline unsigned storm_seed() {
  static const unsigned seed = [] {
    const char* given = std::getenv("FORETOKEN_SEED");
    const char* full = std::getenv("FORETOKEN_FULL");
    if (given != nullptr) return static_cast<unsigned>(std::strtoul(given, nullptr, 10));
    if (full == nullptr || *full != '1') return 0U;
    const unsigned fresh = std::random_device()() >> 1;
    std::printf("FORETOKEN_SEED=%u repeats this run\n", fresh);
    return fresh;
  }();
  return seed;
}

}  // namespace ft::test
