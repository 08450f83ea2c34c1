// Any bytes as a picture: a sentence or pixels within the limits, and patches of the size that was promised.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "images/largest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ft::images;
  Settings settings;
  settings.min_pixels = 4096, settings.max_pixels = 16384;
  const auto loaded = load({reinterpret_cast<const char*>(data), size}, settings, 0);
  if (!loaded.ok()) {
    if (loaded.error().message.empty()) __builtin_trap();
    return 0;
  }
  const Picture& picture = **loaded;
  if (picture.pixels.size.pixels() > largest_pixels(settings)) __builtin_trap();
  std::vector<float> patch(static_cast<std::size_t>(settings.patch_floats()));
  for (const std::int64_t index : {std::int64_t{0}, picture.patches() - 1})
    write_patch(picture, settings, index, patch.data());
  return 0;
}
