// layer_types of config.json: which layers see a window of positions and which see all.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "format/key_reader.h"

namespace ft::blocks {

/// True for "sliding_attention", false for "full_attention"; empty without the key. Failures are in
/// text.status().
std::optional<std::vector<bool>> read_sliding_layers(format::KeyReader& text, std::size_t layers);

}  // namespace ft::blocks
