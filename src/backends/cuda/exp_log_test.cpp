#include "sampling/exp_log.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>

#include "backends/cuda/kernels/device.cuh"

namespace ft::exp_log_test {
namespace {

/// Doubles of every size: bits from a multiplicative sequence.
template <class Check>
void for_many(Check check) {
  std::uint64_t bits = 0x9E3779B97F4A7C15ULL;
  for (int i = 0; i < 2'000'000; ++i) {
    bits = bits * 6364136223846793005ULL + 1442695040888963407ULL;
    check(bits);
  }
}

std::uint64_t bits_of_double(double value) { return std::bit_cast<std::uint64_t>(value); }

// The kernels are compiled without contraction, so their text compiled as C++ has a GPU's bits.
TEST(CudaExpLog, TheKernelsExponentialHasTheBitsOfSampling) {
  for (const double x : {0.0, -0.0, -1e-300, -1.0, -699.9999, -700.0, -700.1, -1e30, -HUGE_VAL})
    EXPECT_EQ(bits_of_double(cuda::exp_of_negative(x)), bits_of_double(exp_of_negative(x))) << x;
  EXPECT_EQ(bits_of_double(cuda::exp_of_negative(std::nan(""))),
            bits_of_double(exp_of_negative(std::nan(""))));
  int differing = 0;
  for_many([&](std::uint64_t bits) {
    const double x = -static_cast<double>(bits >> 11) * 0x1p-53 * 760;
    const double y = -std::bit_cast<double>((bits >> 12) + 0x3e00000000000000ULL + ((bits & 15) << 53));
    differing += bits_of_double(cuda::exp_of_negative(x)) != bits_of_double(exp_of_negative(x)) ? 1 : 0;
    differing += bits_of_double(cuda::exp_of_negative(y)) != bits_of_double(exp_of_negative(y)) ? 1 : 0;
  });
  EXPECT_EQ(differing, 0);
}

TEST(CudaExpLog, TheKernelsLogarithmHasTheBitsOfSampling) {
  for (const double x : {0.0, 1.0, 0.5, 2.0, 1.4142135623730951, 1e-300, 1e300, 0x1p-53, 1 - 0x1p-53})
    EXPECT_EQ(bits_of_double(cuda::log_of_positive(x)), bits_of_double(log_of_positive(x))) << x;
  int differing = 0;
  for_many([&](std::uint64_t bits) {
    const double x = static_cast<double>((bits >> 11) + 1) * 0x1p-53;  // as random numbers are
    const double y = std::bit_cast<double>((bits >> 2) | 0x0010000000000000ULL);
    differing += bits_of_double(cuda::log_of_positive(x)) != bits_of_double(log_of_positive(x)) ? 1 : 0;
    differing += bits_of_double(cuda::log_of_positive(y)) != bits_of_double(log_of_positive(y)) ? 1 : 0;
  });
  EXPECT_EQ(differing, 0);
}

TEST(CudaExpLog, TheExponentialOfSoftmaxIsWithinTwoUnits) {
  int worst = 0;
  for (float x = -86.9F; x < 87.9F; x += 0.00037F) {
    const float wanted = static_cast<float>(std::exp(static_cast<double>(x)));
    const int apart = std::bit_cast<int>(cuda::exp_(x)) - std::bit_cast<int>(wanted);
    worst = std::max(worst, std::abs(apart));
  }
  EXPECT_LE(worst, 2);
  EXPECT_EQ(cuda::exp_(0), 1);  // a unit of attention that a row does not see leaves its sums alone
  EXPECT_EQ(cuda::exp_(-HUGE_VALF), 0);
  EXPECT_EQ(cuda::exp_(std::nanf("")), 0);
}

}  // namespace
}  // namespace ft::exp_log_test
