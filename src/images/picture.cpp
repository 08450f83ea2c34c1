#include "images/picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "base/checksum.h"
#include "text_ffi/foretoken_text.h"

namespace ft::images {
namespace {

/// A buffer that the library fills.
struct Filled {
  ft_text_bytes raw{};
  Filled() = default;
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;
  ~Filled() { ft_text_bytes_free(&raw); }
};

Error as_error(ft_text_code code, const Filled& message) {
  Code kind = Code::kCorrupt;
  if (code == FT_TEXT_UNSUPPORTED) kind = Code::kUnsupported;
  if (code == FT_TEXT_LIMIT || code == FT_TEXT_EXHAUSTED) kind = Code::kExhausted;
  return Error{kind, std::string(reinterpret_cast<const char*>(message.raw.data), message.raw.size)};
}

/// Python's round(value / step) * step, ties to even; at least one step.
std::int64_t nearest(double value, int step) {
  return std::max<std::int64_t>(1, std::llrint(value / step)) * step;
}

std::array<std::byte, 32> digest_of(const Picture& picture, const Settings& settings) {
  const std::array<std::int32_t, 5> sizes = {picture.pixels.size.width, picture.pixels.size.height,
                                             settings.patch, settings.merge, settings.temporal};
  std::vector<std::uint8_t> all = picture.pixels.rgb;
  const auto append = [&all](const auto& values) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
    all.insert(all.end(), bytes, bytes + sizeof(values));
  };
  append(sizes), append(settings.mean), append(settings.deviation);
  std::array<std::byte, 32> digest{};
  ft_image_digest(all.data(), all.size(), reinterpret_cast<std::uint8_t*>(digest.data()));
  return digest;
}

}  // namespace

Result<Pixels> decode(std::string_view file) {
  const ft_image_limits limits = {kMaxFileBytes, kMaxSide, kMaxFilePixels};
  Filled rgb, message;
  std::uint32_t width = 0, height = 0;
  const ft_text_code code = ft_image_decode(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(),
                                            &limits, &rgb.raw, &width, &height, &message.raw);
  if (code != FT_TEXT_OK) return as_error(code, message);
  return Pixels{{static_cast<int>(width), static_cast<int>(height)},
                {rgb.raw.data, rgb.raw.data + rgb.raw.size}};
}

Result<Size> model_size(Size size, const Settings& settings) {
  const double width = size.width, height = size.height;
  if (std::max(width, height) > kMaxAspect * std::min(width, height)) {
    return Error{
        Code::kInvalid,
        fmt::format("the picture has {} x {} pixels; one side may be at most {} times the other; crop it",
                    size.width, size.height, kMaxAspect)};
  }
  const int step = settings.side();
  const auto made = [](std::int64_t wide, std::int64_t high) {
    return Size{static_cast<int>(wide), static_cast<int>(high)};
  };
  const Size near = made(nearest(width, step), nearest(height, step));
  const auto most = static_cast<double>(settings.max_pixels),
             least = static_cast<double>(settings.min_pixels);
  if (near.pixels() > settings.max_pixels) {
    const double shrink = std::sqrt(height * width / most);
    const auto side = [&](double length) {
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(length / shrink / step))) * step;
    };
    return made(side(width), side(height));
  }
  if (near.pixels() < settings.min_pixels) {
    const double grow = std::sqrt(least / (height * width));
    const auto side = [&](double length) {
      return static_cast<std::int64_t>(std::ceil(length * grow / step)) * step;
    };
    return made(side(width), side(height));
  }
  return near;
}

Result<std::shared_ptr<const Picture>> load(std::string_view file, const Settings& settings,
                                            std::int64_t max_pixels) {
  FT_ASSIGN(const Pixels decoded, decode(file));
  Settings within = settings;
  if (max_pixels > 0) within.max_pixels = std::min(within.max_pixels, max_pixels);
  within.min_pixels = std::min(within.min_pixels, within.max_pixels);
  FT_ASSIGN(const Size size, model_size(decoded.size, within));
  auto picture = std::make_shared<Picture>();
  picture->pixels = resize(decoded, size);
  picture->source = decoded.size;
  picture->rows = size.height / settings.patch, picture->columns = size.width / settings.patch;
  picture->merge = settings.merge;
  picture->digest = digest_of(*picture, settings);
  return std::shared_ptr<const Picture>(std::move(picture));
}

Cell cell_of(const Picture& picture, std::int64_t index) {
  const int merge = picture.merge, each = merge * merge;
  const auto token = index / each, inner = index % each;
  const auto row = token / picture.token_columns() * merge + inner / merge;
  const auto column = token % picture.token_columns() * merge + inner % merge;
  return {static_cast<int>(row), static_cast<int>(column)};
}

void write_patch(const Picture& picture, const Settings& settings, std::int64_t index, float* out) {
  const Cell cell = cell_of(picture, index);
  const int side = settings.patch;
  const std::uint8_t* rgb = picture.pixels.rgb.data();
  const std::int64_t area = std::int64_t{settings.temporal} * side * side;
  const std::int64_t step = settings.channels_last ? 3 : 1, plane = settings.channels_last ? 1 : area;
  for (int channel = 0; channel < 3; ++channel) {
    const auto at = static_cast<std::size_t>(channel);
    float* to = out + channel * plane;
    for (int frame = 0; frame < settings.temporal; ++frame) {
      for (int y = 0; y < side; ++y) {
        const std::int64_t line = std::int64_t{cell.row * side + y} * picture.pixels.size.width;
        for (int x = 0; x < side; ++x) {
          const auto value = static_cast<float>(rgb[(line + cell.column * side + x) * 3 + channel]);
          *to = (value * (1.0F / 255.0F) - settings.mean[at]) / settings.deviation[at];
          to += step;
        }
      }
    }
  }
}

std::int32_t content_key(const Picture& picture, std::int64_t index) {
  std::array<std::byte, 32 + sizeof(index)> named{};
  std::memcpy(named.data(), picture.digest.data(), picture.digest.size());
  std::memcpy(named.data() + picture.digest.size(), &index, sizeof(index));
  constexpr std::uint64_t kSign = 0x80000000U;
  return static_cast<std::int32_t>(static_cast<std::uint32_t>((checksum(named) & 0x7FFFFFFFU) | kSign));
}

}  // namespace ft::images
