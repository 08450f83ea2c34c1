// The tokenizer of a GGUF file as the files that Hugging Face's tokenizers read. A file names its rule for
// splitting text into words; tokenizer.cpp lists the known names. Errors: kNotFound for a file without a
// tokenizer, kUnsupported with the name of an unknown kind or rule.
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

/// The tokens that end an answer: the ones that the metadata name, then control tokens with the text of a
/// known end token.
std::vector<std::int64_t> end_tokens(const GgufFile& file);

}  // namespace ft::format
