// Base64 (RFC 4648) both ways.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ft::api {

std::string encode_base64(std::string_view bytes);
/// With or without padding; blanks and line breaks do not count. kInvalid for anything else.
Result<std::string> decode_base64(std::string_view text);

}  // namespace ft::api
