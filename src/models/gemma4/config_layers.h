// The layers of a Gemma 4 config: kinds of attention, head sizes, shared keys and values, widths.
#pragma once

#include "format/key_reader.h"
#include "models/gemma4/config.h"

namespace ft::gemma4 {

inline constexpr int kMaxLayers = 1024;

/// Fills config.layers; the sizes must have been read. Errors stay in `text`.
void read_layers(format::KeyReader& text, Config& config);

}  // namespace ft::gemma4
