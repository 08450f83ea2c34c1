#include "sampling/philox.h"

#include <cmath>
#include <gtest/gtest.h>

namespace ft::philox_test {
namespace {

// kat_vectors of Random123, "philox4x32 10".
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfTheKeyMovesTheNoise) {
  const double base = uniform(7, 11, 13, Stream::kTarget);
  EXPECT_NE(base, uniform(8, 11, 13, Stream::kTarget));
  EXPECT_NE(base, uniform(7 + (1ULL << 32), 11, 13, Stream::kTarget));
  EXPECT_NE(base, uniform(7, 12, 13, Stream::kTarget));
  EXPECT_NE(base, uniform(7, 11 + (1LL << 32), 13, Stream::kTarget));
  EXPECT_NE(base, uniform(7, 11, 14, Stream::kTarget));
  EXPECT_NE(base, uniform(7, 11, 17, Stream::kTarget));
  EXPECT_NE(base, uniform(7, 11, 13, Stream::kDraft));
  EXPECT_NE(base, uniform(7, 11, 13, Stream::kAccept));
  EXPECT_NE(base, uniform(7, 11, 13, Stream::kResidual));
  EXPECT_EQ(base, uniform(7, 11, 13, Stream::kTarget));
}

TEST(Philox, UniformIsOpenAtBothEndsAndFillsItsRange) {
  constexpr int kDraws = 1 << 16;
  int tenths[10] = {};
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = uniform(3, i / 64, i % 64, Stream::kTarget);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++tenths[static_cast<int>(u * 10)];
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);  // 4.4 standard errors
  double chi2 = 0;
  for (const int count : tenths) chi2 += (count - kDraws / 10.0) * (count - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi2, 27.9);  // 9 degrees of freedom, 0.1 %
}

TEST(Philox, ExtremeWordsStayFiniteAndUnderTheStatedMost) {
  const double least = -log_of_positive(-log_of_positive(0x1p-53));
  const double most = -log_of_positive(-log_of_positive(1.0 - 0x1p-53));
  EXPECT_NEAR(least, -3.604, 1e-3);
  EXPECT_NEAR(most, 36.7368, 1e-3);
  EXPECT_LT(most, kGumbelMost);
}

TEST(ExpLog, AgreeWithTheLibraryToTwoUnits) {
  for (int i = 0; i < 200'000; ++i) {
    const double u = uniform(5, i, 0, Stream::kTarget);
    const double x = -u * (i % 2 == 0 ? 40.0 : 690.0);
    EXPECT_NEAR(exp_of_negative(x) / std::exp(x), 1.0, 4.5e-16) << x;
    const double y = i % 3 == 0 ? u : i % 3 == 1 ? 40 * u : 1 - u * 1e-6;
    EXPECT_NEAR(log_of_positive(y), std::log(y), 4.5e-16 * std::abs(std::log(y))) << y;
  }
  EXPECT_EQ(exp_of_negative(0), 1.0);
  EXPECT_LT(exp_of_negative(-1e9), 1e-300);
  EXPECT_LT(exp_of_negative(std::nan("")), 1e-300);
  EXPECT_EQ(log_of_positive(1), 0.0);
}

// These were computed apart from this code, from the layout in philox.h. A change of the generator, its
// layout or the logarithm changes every seeded answer.
TEST(Philox, NoiseKeepsItsBits) {
  EXPECT_EQ(uniform(1, 2, 3, Stream::kTarget), 0x1.67304154846eap-2);
  EXPECT_EQ(gumbel(1, 2, 3, Stream::kTarget), -0x1.7d22725122bb7p-5);
  EXPECT_EQ(uniform(0x123456789abcdef0, (5LL << 32) + 9, 248001, Stream::kResidual), 0x1.206aa08ce7a38p-4);
  EXPECT_EQ(gumbel(0x123456789abcdef0, (5LL << 32) + 9, 248001, Stream::kResidual), -0x1.f39f97224a596p-1);
}

}  // namespace
}  // namespace ft::philox_test
