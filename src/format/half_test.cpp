#include "format/half.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace ft::format::half_test {
namespace {

static_assert(bf16_to_float(0x3F80) == 1.0F);
static_assert(f16_to_float(0x3C00) == 1.0F);
static_assert(float_to_f16(65504.0F) == 0x7BFF);

TEST(Half, EveryBfloatSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = bf16_to_float(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(wide)))) << bits;
    } else {
      EXPECT_EQ(float_to_bf16(wide), half);
    }
  }
}

TEST(Half, EveryHalfHasItsDefinedValueAndSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const int exponent = (half >> 10) & 31;
    const int fraction = half & 1023;
    const float wide = f16_to_float(half);
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(wide))));
      continue;
    }
    double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) value = std::numeric_limits<double>::infinity();
    EXPECT_EQ(static_cast<double>(wide), (half & 0x8000) != 0 ? -value : value);
    EXPECT_EQ(float_to_f16(wide), half);
  }
}

TEST(Half, NarrowingRoundsToNearestTiesToEven) {
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // tie, even below
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // tie, even above
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7F7FFFFFU)), 0x7F80);  // overflow
  EXPECT_EQ(float_to_f16(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_f16(-1e30F), 0xFC00);
  EXPECT_EQ(float_to_f16(0x1p-25F), 0x0000);  // tie between 0 and the smallest subnormal
  EXPECT_EQ(float_to_f16(0x1.8p-24F), 0x0002);
  EXPECT_EQ(float_to_f16(1.0F + 0x1p-11F), 0x3C00);
  EXPECT_EQ(float_to_f16(1.0F + 0x3p-11F), 0x3C02);
  EXPECT_EQ(float_to_f16(std::bit_cast<float>(0x387FFFFFU)), 0x0400);  // rounds up into the normal range
}

TEST(Half, LoadsFromAnyAddress) {
  const std::byte bytes[] = {std::byte{0xFF}, std::byte{0x34}, std::byte{0x12}, std::byte{0x80},
                             std::byte{0x3F}};
  EXPECT_EQ(load_u16(bytes + 1), 0x1234);
  EXPECT_EQ(load_f32(bytes + 1), std::bit_cast<float>(0x3F801234U));
}

}  // namespace
}  // namespace ft::format::half_test
