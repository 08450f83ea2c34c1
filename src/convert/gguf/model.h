// A GGUF file as a Source: llama.cpp's names and layout are reversed, config.json is built from its metadata.
// Families: qwen35 and qwen35moe. Split files are not read. Errors: those of parse_gguf, and kUnsupported for
// another architecture, by name. Source: llama.cpp's conversion of Qwen3.5 (norms stored as 1 + w, A as
// -exp(A_log), value heads in the order of their key heads).
#pragma once

#include <string>

#include "base/result.h"
#include "convert/source.h"

namespace ft::convert {

Result<Source> open_gguf(const std::string& path, bool float32_scales);

}  // namespace ft::convert
