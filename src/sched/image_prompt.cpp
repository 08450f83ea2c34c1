#include "sched/image_prompt.h"

#include <algorithm>
#include <fmt/format.h>

#include "models/model.h"
#include "speculation/image_encoder.h"

namespace ft {

ImageInput image_input(const Model& model, std::int64_t max_pixels) {
  ImageInput input;
  if (!model.vision) {
    if (!model.vision_problem.empty()) input.problem = model.vision_problem;
    return input;
  }
  input.problem.clear();
  input.settings = model.vision->settings;
  input.max_pixels = pixel_limit(input.settings, max_pixels);
  input.image_token = model.vision->image_token;
  return input;
}

Result<std::shared_ptr<const images::Picture>> load_image(const ImageInput& input, std::string_view file,
                                                          bool low_detail) {
  if (!input.problem.empty()) return Error{Code::kUnsupported, input.problem};
  const std::int64_t most = low_detail ? std::min(input.max_pixels, kLowDetailPixels) : input.max_pixels;
  auto picture = images::load(file, input.settings, most);
  if (!picture.ok()) return Error{Code::kInvalid, picture.error().message};  // the caller's file is wrong
  return picture;
}

Result<ImagePrompt> place_images(const ImageInput& input, std::vector<std::int32_t> tokens,
                                 const Pictures& pictures) {
  if (pictures.empty()) return ImagePrompt{std::move(tokens), {}};
  const auto places = static_cast<std::size_t>(std::ranges::count(tokens, input.image_token));
  if (places != pictures.size()) {
    return Error{
        Code::kInvalid,
        fmt::format("the prompt has {} places for {} images: the chat template does not show images, "
                    "or a text holds the image token itself; take it out",
                    places, pictures.size())};
  }
  ImagePrompt prompt;
  for (const std::int32_t token : tokens) {
    if (token != input.image_token) {
      prompt.tokens.push_back(token);
      continue;
    }
    const auto& picture = pictures[prompt.images.size()];
    prompt.images.push_back({static_cast<std::int64_t>(prompt.tokens.size()), picture});
    prompt.tokens.insert(prompt.tokens.end(), static_cast<std::size_t>(picture->tokens()), token);
  }
  return prompt;
}

Status check_images(std::span<const PromptImage> images, std::size_t tokens) {
  std::int64_t end = 0;
  for (const PromptImage& image : images) {
    if (image.picture == nullptr || image.first < end) {
      return Error{Code::kInvalid, "prompt: its images are not in order"};
    }
    end = image.end();
  }
  if (images.empty() || end < static_cast<std::int64_t>(tokens)) return {};
  return Error{Code::kInvalid, "prompt: it ends with an image; give at least one token after it"};
}

}  // namespace ft
