// The token that a tokenizer's configuration names as the end of a text. transformers also stops at it, in
// addition to the ids of generation_config.json and config.json, which may lack it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ft {

/// The id of `eos_token` in tokenizer_config.json, else in special_tokens_map.json; nullopt if neither names
/// a token of `tokenizer`. ChatTemplate::load reports a file that cannot be read.
std::optional<std::int32_t> end_token_of(const std::string& model_dir, const Tokenizer& tokenizer);
/// The same from the content of tokenizer_config.json.
std::optional<std::int32_t> end_token_in(std::string_view tokenizer_config, const Tokenizer& tokenizer);

/// The tokens with which the chat template ends a turn, among the known ones. The configuration of a
/// fine-tuned model may name only the end of a text.
std::vector<std::int32_t> turn_ends_in(std::string_view chat_template, const Tokenizer& tokenizer);

}  // namespace ft
