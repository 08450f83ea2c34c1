#include "api/encoding.h"

#include <fmt/format.h>

namespace ft::api {
namespace {

Error too_long(const ModelInfo& model_info, const Encoded& encoded, std::string_view found) {
  return Error{Code::kTooLong,
               fmt::format("{} is too long: {} > {} maximum; shorten it, or start the server with a larger "
                           "--context",
                           encoded.what, found, model_info.context - 1),
               std::string(encoded.field)};
}

}  // namespace

Status check_length(const ModelInfo& model_info, std::size_t tokens, const Encoded& encoded) {
  if (static_cast<std::int64_t>(tokens) < model_info.context) return {};
  return too_long(model_info, encoded, fmt::format("{} tokens", tokens));
}

Result<std::vector<std::int32_t>> encode_within(const ModelInfo& model_info, std::string_view text,
                                                bool add_special, const Encoded& encoded) {
  if (const std::size_t each = model_info.tokenizer->text_per_token(); each > 0) {
    const std::size_t least = (text.size() + each - 1) / each;
    if (static_cast<std::int64_t>(least) >= model_info.context) {
      return too_long(model_info, encoded, fmt::format("at least {} tokens ({} bytes)", least, text.size()));
    }
  }
  return model_info.tokenizer->encode(text, add_special);
}

}  // namespace ft::api
