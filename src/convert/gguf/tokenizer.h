// The tokenizer of a GGUF file as the files that Hugging Face's tokenizers read. Only byte-level BPE with the
// pre-tokenizers of Qwen ("qwen2", "qwen35"); for any other nothing is made.
#pragma once

#include <map>
#include <string>

#include "convert/gguf/container.h"

namespace ft::convert {

/// File name -> content: tokenizer.json, tokenizer_config.json, chat_template.jinja. Empty if the file's
/// tokenizer is of another kind.
std::map<std::string, std::string> tokenizer_files(const GgufFile& file);

}  // namespace ft::convert
