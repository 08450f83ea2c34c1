// Encoding with the context as its bound. A text whose bytes alone make it longer than the context is refused
// before it is encoded, with the words of one that was counted. Thread: any. Cost: linear in the text, at
// most the context's tokens times the longest token. Errors: kTooLong with the field; those of
// Tokenizer::encode.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "api/model_info.h"
#include "base/result.h"

namespace ft::api {

/// What is too long, and the field that errors name.
struct Encoded {
  std::string_view what, field;
};

/// `add_special`: see Tokenizer::encode. May have more tokens than the context: check_length() tells.
Result<std::vector<std::int32_t>> encode_within(const ModelInfo& model_info, std::string_view text,
                                                bool add_special, const Encoded& encoded);
Status check_length(const ModelInfo& model_info, std::size_t tokens, const Encoded& encoded);

}  // namespace ft::api
