// The tokenizer of a GGUF file as the files that Hugging Face's tokenizers read. A file names its tokenizer's
// splitting of text into words; the names that are known are listed in tokenizer.cpp. Errors: kNotFound for a
// file without a tokenizer, kUnsupported for a kind or a name that is not known, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf/container.h"

namespace ft::format {

/// File name -> content: tokenizer.json, tokenizer_config.json, chat_template.jinja. `path` begins messages.
Result<std::map<std::string, std::string>> tokenizer_files(const GgufFile& file, const std::string& path);

/// The tokens that end an answer: those that the metadata name, then control tokens whose text is such an
/// end.
std::vector<std::int64_t> end_tokens(const GgufFile& file);

}  // namespace ft::format
