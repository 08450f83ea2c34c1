#include "server/guard.h"

#include <algorithm>

namespace ft::server {

bool same_secret(std::string_view left, std::string_view right) {
  unsigned different = left.size() == right.size() ? 0U : 1U;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const unsigned char other = left.empty() ? 0 : static_cast<unsigned char>(left[i % left.size()]);
    different |= static_cast<unsigned>(static_cast<unsigned char>(right[i]) ^ other);
  }
  return different == 0;
}

bool key_fits(const Incoming& incoming, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  std::string_view given = incoming.header("x-api-key");
  if (const std::string_view bearer = incoming.header("authorization");
      bearer.size() > 7 && same_name(bearer.substr(0, 7), "bearer ")) {
    given = bearer.substr(7);
  }
  bool fits = false;
  for (const std::string& key : keys) fits |= !key.empty() && same_secret(given, key);
  return fits;
}

bool is_loopback_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view rest = origin.substr(scheme.size());
    for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"}) {
      if (rest == host) return true;
      if (rest.starts_with(host) && rest[host.size()] == ':') return true;
    }
  }
  return false;
}

bool is_own_page(std::string_view origin, std::string_view host) {
  constexpr std::string_view kScheme = "http://";
  if (host.empty() || !origin.starts_with(kScheme) || origin.substr(kScheme.size()) != host) return false;
  if (host.front() == '[') return true;  // no name begins so
  return host.find_first_not_of("0123456789.:") == std::string_view::npos;
}

bool origin_fits(std::string_view origin, const std::vector<std::string>& allowed) {
  if (is_loopback_origin(origin)) return true;
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& entry) { return entry == "*" || entry == origin; });
}

}  // namespace ft::server
