// The images of a prompt: their tokens, and the keys that a prefix cache compares in place of the tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "images/picture.h"

namespace ft {

/// Tokens [first, first + picture->tokens()) of a prompt are the picture's.
struct PromptImage {
  std::int64_t first = 0;
  std::shared_ptr<const images::Picture> picture;
  bool read = false;  // its rows are in the slot's area

  std::int64_t end() const { return first + picture->tokens(); }
};

/// `tokens` with content keys in place of image tokens: equal lists have equal prompts, whatever the images.
std::vector<std::int32_t> content_keys(std::span<const std::int32_t> tokens,
                                       std::span<const PromptImage> images);

}  // namespace ft
