// Pictures as a vision tower takes them: decoded, resized and cut into patches as transformers' Qwen2-VL
// image processor does it, so that sizes and patches are the published ones.
//   decode    a file's bytes to upright 8-bit RGB; limits apply before memory for pixels is allocated
//   resize    bicubic with antialiasing, 8 bits between the two passes, as Pillow's Image.resize
//   load      both, with the model's size; the digest identifies the pixels
// Thread: pure functions, any thread. Cost: linear in the pixels of the file and of the result. Errors:
// kUnsupported (kind of file), kCorrupt (cut or damaged), kExhausted (beyond a limit), kInvalid (shape).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft::images {

/// Limits of one file; each has a test at limit + 1.
inline constexpr std::size_t kMaxFileBytes = std::size_t{20} << 20;
inline constexpr int kMaxSide = 16'384;
inline constexpr std::int64_t kMaxFilePixels = std::int64_t{36} << 20;
inline constexpr double kMaxAspect = 200;
/// Pixels of one picture after resizing, unless --max-pixels allows more: 1024 tokens of Qwen3.5.
inline constexpr std::int64_t kDefaultMaxPixels = std::int64_t{1} << 20;

/// A model's requirements for a picture: preprocessor_config.json and the sizes of its tower.
struct Settings {
  int patch = 16;                                             // pixels of a patch's side
  int merge = 2;                                              // patches of a token's side
  int temporal = 2;                                           // frames of a patch; a picture is repeated
  std::int64_t min_pixels = 65'536, max_pixels = 16'777'216;  // of the resized picture
  bool channels_last = false;                                 // of a patch's values, as MLX stores the kernel
  std::array<float, 3> mean = {0.5F, 0.5F, 0.5F}, deviation = {0.5F, 0.5F, 0.5F};

  int side() const { return patch * merge; }  // pixels of a token's side
  int patch_floats() const { return 3 * temporal * patch * patch; }
};

struct Size {
  int width = 0, height = 0;
  std::int64_t pixels() const { return std::int64_t{width} * height; }
  friend bool operator==(const Size&, const Size&) = default;
};

struct Pixels {
  Size size;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

/// A picture of the size that the model wants.
struct Picture {
  Pixels pixels;
  Size source;                         // of the file
  int rows = 0, columns = 0;           // patches
  int merge = 2;                       // patches of a token's side
  std::array<std::byte, 32> digest{};  // SHA-256 of the pixels, their size and the settings

  int token_rows() const { return rows / merge; }
  int token_columns() const { return columns / merge; }
  std::int64_t tokens() const { return std::int64_t{token_rows()} * token_columns(); }
  std::int64_t patches() const { return std::int64_t{rows} * columns; }
};

Result<Pixels> decode(std::string_view file);
/// The size for a picture of `size`: multiples of side(), pixels within the settings' limits. kInvalid if it
/// is longer than kMaxAspect times its width, or the other way round. Source: Qwen2-VL's smart_resize.
Result<Size> model_size(Size size, const Settings& settings);
Pixels resize(const Pixels& pixels, Size size);
/// At most `max_pixels` after resizing, and at most the settings' limit; 0: only the settings' limit.
Result<std::shared_ptr<const Picture>> load(std::string_view file, const Settings& settings,
                                            std::int64_t max_pixels);

/// Where patch `index` is: row and column of the grid. Patches go from token to token, row by row in each.
struct Cell {
  int row = 0, column = 0;
};
Cell cell_of(const Picture& picture, std::int64_t index);
/// The normalised values of patch `index`: [3, temporal, patch, patch] floats, or the channel last.
void write_patch(const Picture& picture, const Settings& settings, std::int64_t index, float* out);

/// Replaces token `index` of the picture in a prefix cache: negative, unlike the ids of tokens.
std::int32_t content_key(const Picture& picture, std::int64_t index);

}  // namespace ft::images
