#include "verify/matrix_pictures.h"

#include <array>
#include <cstdint>

namespace ft {
namespace {

struct Size {
  int width, height;  // a row has no padding: 3 * width is a multiple of 4
};
// One picture in three has the minimum size of a model: a small batch of patches for the tower.
constexpr std::array<Size, 3> kSizes = {{{96, 64}, {16, 16}, {64, 96}}};

using Colour = std::array<std::uint8_t, 3>;  // blue, green, red: the order of the file
constexpr std::array<Colour, 5> kColours = {
    {{40, 40, 220}, {220, 90, 30}, {60, 170, 40}, {30, 200, 240}, {150, 40, 140}}};

void append(std::string& file, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) file.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

/// Source of the layout: BITMAPFILEHEADER and BITMAPINFOHEADER, 24 bits a pixel.
std::string header(Size size) {
  constexpr std::uint32_t kHeader = 54;
  const auto pixels = static_cast<std::uint32_t>(3 * size.width * size.height);
  std::string file = "BM";
  append(file, kHeader + pixels, 4), append(file, 0, 4), append(file, kHeader, 4);
  append(file, 40, 4), append(file, static_cast<std::uint32_t>(size.width), 4);
  append(file, static_cast<std::uint32_t>(size.height), 4);
  append(file, 1, 2), append(file, 24, 2), append(file, 0, 4), append(file, pixels, 4);
  for (int i = 0; i < 4; ++i) append(file, 0, 4);
  return file;
}

}  // namespace

std::string drawn_picture(int number) {
  const auto colour = [number](int step) {
    return kColours[static_cast<std::size_t>(number + step) % kColours.size()];
  };
  const Size size = kSizes[static_cast<std::size_t>(number) % kSizes.size()];
  const int x0 = number * 13 % size.width, y0 = number * 7 % size.height, radius = 5 + number % 6;
  const int bar = number * 11 % size.width;
  std::string file = header(size);
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      const bool disc = (x - x0) * (x - x0) + (y - y0) * (y - y0) <= radius * radius;
      const Colour pixel = disc ? colour(0) : x >= bar && x < bar + 12 ? colour(2) : Colour{245, 245, 245};
      file.append(pixel.begin(), pixel.end());
    }
  }
  return file;
}

}  // namespace ft
