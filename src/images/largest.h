// The largest size of a resized picture, for which a vision tower reserves memory.
#pragma once

#include <cstdint>

#include "images/picture.h"

namespace ft::images {

/// Pixels of the largest size that model_size() gives. It may be more than settings.max_pixels: a strip is at
/// least a token high, and a small picture grows to whole tokens, as with the published processor.
std::int64_t largest_pixels(const Settings& settings);

}  // namespace ft::images
