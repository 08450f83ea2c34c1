#include "images/picture.h"

#include <fstream>
#include <gtest/gtest.h>

namespace ft::images::picture_test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// An uncompressed BMP of 24 bits; the header may lie.
std::string bitmap(int width, int height, int rows_there) {
  std::string file(54, '\0');
  const auto put = [&file](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<char>(value >> (8 * i));
  };
  file[0] = 'B', file[1] = 'M';
  const std::size_t row = (static_cast<std::size_t>(width) * 3 + 3) / 4 * 4;
  put(2, static_cast<std::uint32_t>(54 + row * static_cast<std::size_t>(height)));
  put(10, 54), put(14, 40);
  put(18, static_cast<std::uint32_t>(width)), put(22, static_cast<std::uint32_t>(height));
  put(26, 1 | 24U << 16);
  file.append(row * static_cast<std::size_t>(rows_there), '\x40');
  return file;
}

TEST(Picture, SizesAreThoseOfThePublishedProcessor) {
  const Settings settings;  // 65536 to 16777216 pixels
  const auto size = [&](int width, int height) { return *model_size({width, height}, settings); };
  EXPECT_EQ(size(1024, 768), (Size{1024, 768}));
  EXPECT_EQ(size(1000, 700), (Size{992, 704}));
  EXPECT_EQ(size(48, 1000), (Size{64, 1184}));  // too small: grows
  EXPECT_EQ(size(10, 10), (Size{256, 256}));
  EXPECT_EQ(size(1040, 1040), (Size{1024, 1024}));  // 32.5 tokens: to even
  EXPECT_EQ(size(8000, 6000), (Size{4704, 3520}));  // too large: shrinks
}

TEST(Picture, AStripIsRefused) {
  const auto strip = model_size({2010, 10}, {});
  ASSERT_FALSE(strip.ok());
  EXPECT_EQ(strip.error().code, Code::kInvalid);
  EXPECT_NE(strip.error().message.find("2010 x 10"), std::string::npos);
  EXPECT_TRUE(model_size({2000, 10}, {}).ok());
}

TEST(Picture, AResizedPictureKeepsItsMeanAndClampsItsEdges) {
  Pixels pixels{{64, 64}, std::vector<std::uint8_t>(64UL * 64 * 3)};
  for (std::size_t i = 0; i < pixels.rgb.size(); ++i) pixels.rgb[i] = (i / 3) % 64 < 32 ? 0 : 255;
  const Pixels small = resize(pixels, {20, 16});
  ASSERT_EQ(small.rgb.size(), 20UL * 16 * 3);
  double sum = 0;
  for (const std::uint8_t value : small.rgb) sum += value;
  EXPECT_NEAR(sum / static_cast<double>(small.rgb.size()), 127.5, 1);
  EXPECT_EQ(small.rgb.front(), 0);
  EXPECT_EQ(resize(pixels, {64, 64}).rgb, pixels.rgb);
}

TEST(Picture, FilesBeyondALimitAreRefusedBeforeTheirPixelsAreThere) {
  for (const auto& [width, height] : {std::pair{kMaxSide + 1, 1}, {1, kMaxSide + 1}, {8192, 4609}}) {
    const auto large = decode(bitmap(width, height, 0));
    ASSERT_FALSE(large.ok()) << width;
    EXPECT_EQ(large.error().code, Code::kExhausted) << large.error().message;
  }
  const auto heavy = decode(bitmap(8, 8, 8) + std::string(kMaxFileBytes, '\0'));
  ASSERT_FALSE(heavy.ok());
  EXPECT_EQ(heavy.error().code, Code::kExhausted);
  EXPECT_TRUE(decode(bitmap(kMaxSide, 1, 1)).ok());
}

TEST(Picture, CutAndUnknownFilesAreRefusedWithASentence) {
  const std::string whole = bitmap(40, 30, 30);
  ASSERT_TRUE(decode(whole).ok());
  for (std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{53}, std::size_t{60}, whole.size() / 2}) {
    const auto cut = decode(std::string_view(whole).substr(0, size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_FALSE(cut.error().message.empty());
  }
  const auto text = decode("%PDF-1.7 is not a picture");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, Code::kUnsupported);
  EXPECT_NE(text.error().message.find("PNG, JPEG, WebP, GIF or BMP"), std::string::npos);
}

TEST(Picture, EachKindOfFileIsDecodedUpright) {
  // Each is the same picture of 24 x 16: a red left half, a blue right half, a white line at the top.
  for (const char* name :
       {"plain.png", "alpha.png", "palette.gif", "lossless.webp", "bitmap.bmp", "turned.jpg"}) {
    const auto pixels = decode(read_file(std::string("tests/golden/pictures/") + name));
    ASSERT_TRUE(pixels.ok()) << name << ": " << pixels.error().message;
    ASSERT_EQ(pixels->size, (Size{24, 16})) << name;
    const auto at = [&](int x, int y, int channel) {
      return static_cast<int>(pixels->rgb[static_cast<std::size_t>((y * 24 + x) * 3 + channel)]);
    };
    EXPECT_NEAR(at(4, 12, 0), 220, 12) << name;
    EXPECT_NEAR(at(4, 12, 2), 20, 12) << name;
    EXPECT_NEAR(at(20, 12, 0), 20, 12) << name;
    EXPECT_NEAR(at(20, 12, 2), 220, 12) << name;
    EXPECT_NEAR(at(12, 1, 1), 255, 12) << name;
  }
}

TEST(Picture, ContentKeysTellPicturesAndTokensApart) {
  const Settings settings;
  const auto one = *load(bitmap(40, 30, 30), settings, 0), same = *load(bitmap(40, 30, 30), settings, 0);
  EXPECT_EQ(content_key(*one, 3), content_key(*same, 3));
  EXPECT_NE(content_key(*one, 3), content_key(*one, 4));
  EXPECT_LT(content_key(*one, 3), 0);
  std::string other = bitmap(40, 30, 30);
  other.back() = '\x41';
  EXPECT_NE(content_key(**load(other, settings, 0), 3), content_key(*one, 3));
  Settings finer = settings;
  finer.mean[0] = 0.25F;
  EXPECT_NE(content_key(**load(bitmap(40, 30, 30), finer, 0), 3), content_key(*one, 3));
}

TEST(Picture, ALimitOfPixelsMakesItSmaller) {
  const auto picture = *load(bitmap(1024, 1024, 1024), {}, 256 * 256);
  EXPECT_EQ(picture->tokens(), 64);
  EXPECT_EQ(picture->rows, 16);
  EXPECT_EQ(picture->source, (Size{1024, 1024}));
}

}  // namespace
}  // namespace ft::images::picture_test
