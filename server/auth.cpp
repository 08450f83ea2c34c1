#include "server/auth.h"

namespace ft::server {

bool same_secret(std::string_view left, std::string_view right) {
  unsigned different = left.size() == right.size() ? 0U : 1U;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const unsigned char other = left.empty() ? 0 : static_cast<unsigned char>(left[i % left.size()]);
    different |= static_cast<unsigned>(static_cast<unsigned char>(right[i]) ^ other);
  }
  return different == 0;
}

bool key_fits(const HttpRequest& http_request, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  std::string_view given = http_request.header("x-api-key");
  if (const std::string_view bearer = http_request.header("authorization");
      bearer.size() > 7 && same_name(bearer.substr(0, 7), "bearer ")) {
    given = bearer.substr(7);
  }
  bool fits = false;
  for (const std::string& key : keys) fits |= !key.empty() && same_secret(given, key);
  return fits;
}

}  // namespace ft::server
