#include "images/largest.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace ft::images::largest_test {
namespace {

TEST(LargestPixels, HoldForStripsAndSmallPictures) {
  for (const std::int64_t most : {1, 2, 4, 16, 64, 80, 1024}) {
    for (const std::int64_t least : {std::int64_t{1}, std::int64_t{4}, most}) {
      Settings settings;
      settings.min_pixels = std::min(least, most) * 1024, settings.max_pixels = most * 1024;
      const std::int64_t largest = largest_pixels(settings);
      EXPECT_GE(largest, settings.max_pixels);
      for (int width = 1; width < 3000; width += 1 + width / 7) {
        for (int height = 1; height < 3000; height += 1 + height / 7) {
          const auto size = model_size({width, height}, settings);
          if (!size.ok()) continue;
          EXPECT_LE(size->pixels(), largest) << width << " x " << height << ", " << most;
        }
      }
    }
  }
  Settings usual;
  usual.max_pixels = kDefaultMaxPixels;
  EXPECT_EQ(largest_pixels(usual), kDefaultMaxPixels) << "costs no memory where pictures are large";
}

}  // namespace
}  // namespace ft::images::largest_test
