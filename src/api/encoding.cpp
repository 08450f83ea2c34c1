#include "api/encoding.h"

#include <fmt/format.h>

#include "speculation/context_room.h"

namespace ft::api {
namespace {

Error of_field(Error error, const Encoded& encoded) {
  error.field = encoded.field;
  return error;
}

}  // namespace

Status check_length(const ModelInfo& model_info, std::size_t tokens, const Encoded& encoded) {
  const Status room = check_room(static_cast<std::int64_t>(tokens), model_info.context, encoded.what);
  if (room.ok()) return {};
  return of_field(room.error(), encoded);
}

Result<std::vector<std::int32_t>> encode_within(const ModelInfo& model_info, std::string_view text,
                                                bool add_special, const Encoded& encoded) {
  if (const std::size_t each = model_info.tokenizer->text_per_token(); each > 0) {
    const std::size_t least = (text.size() + each - 1) / each;
    if (static_cast<std::int64_t>(least) >= model_info.context) {
      return of_field(too_long(encoded.what, fmt::format("at least {} tokens ({} bytes)", least, text.size()),
                               model_info.context),
                      encoded);
    }
  }
  return model_info.tokenizer->encode(text, add_special);
}

}  // namespace ft::api
