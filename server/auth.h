// Who may ask: API keys, as Authorization: Bearer KEY or x-api-key: KEY, compared in constant time. The
// router says which paths need none. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http_request.h"
#include "server/options.h"

namespace ft::server {

/// True if one of the keys is given, or none is asked for.
bool key_fits(const HttpRequest& http_request, const std::vector<std::string>& keys);
/// Equal, in a time that depends on the lengths alone.
bool same_secret(std::string_view left, std::string_view right);

}  // namespace ft::server
