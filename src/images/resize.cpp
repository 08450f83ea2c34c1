// Resampling in two passes, columns first, each to 8 bits. The arithmetic is Pillow's (Resample.c): Keys'
// cubic with a = -0.5, stretched by the scale where the picture shrinks, weights in fixed point of 22
// bits. So the golden pictures have the same bits.
#include <algorithm>
#include <cmath>

#include "images/picture.h"

namespace ft::images {
namespace {

constexpr int kFractionBits = 22;

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// The inputs of one output: [first, first + weights.size()).
struct Taps {
  int first = 0;
  std::vector<std::int32_t> weights;  // 1 is 1 << kFractionBits
};

std::vector<Taps> taps_of(int from, int to) {
  const double scale = static_cast<double>(from) / to, stretch = std::max(scale, 1.0);
  const double reach = 2.0 * stretch;
  std::vector<Taps> all(static_cast<std::size_t>(to));
  std::vector<double> weights;
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(std::floor(center - reach + 0.5)));
    const int end = std::min(from, static_cast<int>(std::floor(center + reach + 0.5)));
    weights.clear();
    double total = 0;
    for (int x = first; x < end; ++x) {
      weights.push_back(cubic((x - center + 0.5) / stretch));
      total += weights.back();
    }
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    for (const double weight : weights) {
      const double fixed = (total != 0 ? weight / total : weight) * (1 << kFractionBits);
      taps.weights.push_back(static_cast<std::int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
  }
  return all;
}

std::uint8_t rounded(std::int64_t sum) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kFractionBits, 0, 255));
}

constexpr std::int64_t kHalf = std::int64_t{1} << (kFractionBits - 1);

Pixels resize_columns(const Pixels& from, int width) {
  const std::vector<Taps> taps = taps_of(from.size.width, width);
  Pixels to{{width, from.size.height}, {}};
  to.rgb.resize(static_cast<std::size_t>(to.size.pixels()) * 3);
  std::uint8_t* out = to.rgb.data();
  for (int y = 0; y < from.size.height; ++y) {
    const std::uint8_t* line = from.rgb.data() + std::int64_t{y} * from.size.width * 3;
    for (const Taps& each : taps) {
      for (int channel = 0; channel < 3; ++channel) {
        std::int64_t sum = kHalf;
        const std::uint8_t* in = line + std::int64_t{each.first} * 3 + channel;
        for (const std::int32_t weight : each.weights) sum += std::int64_t{weight} * *in, in += 3;
        *out++ = rounded(sum);
      }
    }
  }
  return to;
}

Pixels resize_rows(const Pixels& from, int height) {
  const std::vector<Taps> taps = taps_of(from.size.height, height);
  Pixels to{{from.size.width, height}, {}};
  const std::int64_t stride = std::int64_t{from.size.width} * 3;
  to.rgb.resize(static_cast<std::size_t>(stride * height));
  std::uint8_t* out = to.rgb.data();
  for (const Taps& each : taps) {
    for (std::int64_t i = 0; i < stride; ++i) {
      std::int64_t sum = kHalf;
      const std::uint8_t* in = from.rgb.data() + each.first * stride + i;
      for (const std::int32_t weight : each.weights) sum += std::int64_t{weight} * *in, in += stride;
      *out++ = rounded(sum);
    }
  }
  return to;
}

}  // namespace

Pixels resize(const Pixels& pixels, Size size) {
  if (size == pixels.size) return pixels;
  return resize_rows(resize_columns(pixels, size.width), size.height);
}

}  // namespace ft::images
