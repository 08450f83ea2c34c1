// Images in conversations, the same for every dialect. A dialect's reader turns its own form into one part
// {"type": "image", "url": ..., "at": ..., "detail": ...}. Before rendering, the images are taken out of the
// parts, in order, and only {"type": "image"} is left for the template. Errors name the part ("at") and are
// kInvalid, or kUnsupported for a source that is not read.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"
#include "base/result.h"
#include "sched/image_prompt.h"

namespace ft::api {

class Fields;

/// OpenAI's image_url ({"image_url": {"url", "detail"}}) and input_image ({"image_url": "...", "detail"}).
Result<Json> read_openai_image(const Json& part, const std::string& path);
/// Anthropic's image ({"source": {"type": "base64", "media_type", "data"}}).
Result<Json> read_anthropic_image(const Json& block, const std::string& path);
/// A part with the file's bytes, for files of the terminal's user.
Json image_part(std::string_view file, const std::string& at);

struct GivenImage {
  std::string url;  // a data URI, or an http(s) address
  std::string at;   // the part, for errors
  bool low_detail = false;
};
/// Takes the images out of the messages. Only users' messages and tool results may have images.
Result<std::vector<GivenImage>> take_images(Json& messages);
/// Decodes them; first fetches those at web addresses if `input` allows it. kInvalid beyond kMaxImages.
Result<Pictures> load_images(const ImageInput& input, const std::vector<GivenImage>& given);

}  // namespace ft::api
