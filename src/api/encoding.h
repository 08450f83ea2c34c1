// Encoding within the context length. A text whose byte count alone proves it too long is refused before it
// is encoded, with the same error as a counted one. Cost: linear in the text, up to the context length times
// the longest token. Errors: kTooLong with the field; the errors of Tokenizer::encode.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "api/model_info.h"
#include "base/result.h"

namespace ft::api {

/// The name of the text and the field, for errors.
struct Encoded {
  std::string_view what, field;
};

/// `add_special`: see Tokenizer::encode. The result may exceed the context: check it with check_length().
Result<std::vector<std::int32_t>> encode_within(const ModelInfo& model_info, std::string_view text,
                                                bool add_special, const Encoded& encoded);
Status check_length(const ModelInfo& model_info, std::size_t tokens, const Encoded& encoded);

}  // namespace ft::api
