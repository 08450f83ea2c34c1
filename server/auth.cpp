#include "server/auth.h"

#include <algorithm>
#include <span>

#include "base/checksum.h"

namespace ft::server {

bool same_secret(std::string_view left, std::string_view right) {
  unsigned different = left.size() == right.size() ? 0U : 1U;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const unsigned char other = left.empty() ? 0 : static_cast<unsigned char>(left[i % left.size()]);
    different |= static_cast<unsigned>(static_cast<unsigned char>(right[i]) ^ other);
  }
  return different == 0;
}

int key_number(const HttpRequest& http_request, const std::vector<std::string>& keys) {
  if (keys.empty()) return 0;
  std::string_view given = http_request.header("x-api-key");
  if (const std::string_view bearer = http_request.header("authorization");
      bearer.size() > 7 && same_name(bearer.substr(0, 7), "bearer ")) {
    given = bearer.substr(7);
  }
  int number = -1;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i].empty() && same_secret(given, keys[i])) number = static_cast<int>(i) + 1;
  }
  return number;
}

bool key_fits(const HttpRequest& http_request, const std::vector<std::string>& keys) {
  return key_number(http_request, keys) >= 0;
}

std::uint64_t key_owner(const HttpRequest& http_request, const std::vector<std::string>& keys) {
  const int number = key_number(http_request, keys);
  if (number <= 0) return 0;
  const std::string& key = keys[static_cast<std::size_t>(number) - 1];
  return std::max<std::uint64_t>(1, checksum(std::as_bytes(std::span(key))));
}

}  // namespace ft::server
