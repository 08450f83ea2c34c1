// Who may ask: API keys and origins of web pages. Pure. Thread: any. Cost: linear in the keys.
//   keys     Authorization: Bearer KEY or x-api-key: KEY, compared in constant time; /health and the page's
//            own file need none
//   origins  pages of loopback addresses and those listed may read answers; a request from another web page
//            is refused, so that no page can use the model of who looks at it
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/incoming.h"
#include "server/options.h"

namespace ft::server {

/// True if one of the keys is given, or none is asked for.
bool key_fits(const Incoming& incoming, const std::vector<std::string>& keys);
/// Equal, in a time that depends on the lengths alone.
bool same_secret(std::string_view left, std::string_view right);
/// http://localhost:3000, http://127.0.0.1, https://[::1]:8443 ...
bool is_loopback_origin(std::string_view origin);
/// Whether a page of `origin` came from this server, by the Host that the browser names. Only for addresses:
/// a name could be anybody's who lets it point here (DNS rebinding), and needs --cors.
bool is_own_page(std::string_view origin, std::string_view host);
bool origin_fits(std::string_view origin, const std::vector<std::string>& allowed);

}  // namespace ft::server
