// From a file's bytes and a rendered conversation to a prompt with images.
//   ImageInput    the image settings of a loaded model and the options
//   load_image    a picture of the size that the model wants, or a sentence
//   place_images  each placeholder in the tokens becomes the tokens of its image
// Thread: pure functions, any thread; decode where prompts are rendered, before the engine has the request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "speculation/prompt_images.h"

namespace ft {

struct Model;

/// Maximum images in one request.
inline constexpr std::size_t kMaxImages = 64;
/// Maximum images at web addresses, which are fetched one after the other.
inline constexpr std::size_t kMaxFetchedImages = 8;
/// Pixels of a resized image whose detail is "low".
inline constexpr std::int64_t kLowDetailPixels = std::int64_t{512} * 512;

struct ImageInput {
  std::string problem = "this model reads text only";  // why there are none; empty: images are welcome
  images::Settings settings;
  std::int64_t max_pixels = 0;    // of a resized image
  std::int32_t image_token = -1;  // the placeholder
  /// Fetches the file at an http or https address; it waits. Empty: such images are refused.
  std::function<Result<std::string>(const std::string& url)> fetch;
};

/// `max_pixels`: of --max-pixels; 0: the default.
ImageInput image_input(const Model& model, std::int64_t max_pixels);

using Pictures = std::vector<std::shared_ptr<const images::Picture>>;

/// `low_detail`: at most kLowDetailPixels. kUnsupported if the model has no images, else kInvalid.
Result<std::shared_ptr<const images::Picture>> load_image(const ImageInput& input, std::string_view file,
                                                          bool low_detail);

struct ImagePrompt {
  std::vector<std::int32_t> tokens;
  std::vector<PromptImage> images;
};
/// kInvalid if the numbers of placeholders and pictures differ.
Result<ImagePrompt> place_images(const ImageInput& input, std::vector<std::int32_t> tokens,
                                 const Pictures& pictures);

/// kInvalid unless the images are in order inside a prompt of `tokens`, with text after the last one.
Status check_images(std::span<const PromptImage> images, std::size_t tokens);

}  // namespace ft
