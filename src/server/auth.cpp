#include "server/auth.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <span>

#include "base/checksum.h"

namespace ft::server {
namespace {

constexpr std::string_view kOperator = " operator";

/// One or more blanks may follow the scheme (RFC 9110 section 11.4).
std::string_view given_key(const HttpRequest& http_request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view bearer = http_request.header("authorization");
  if (bearer.size() <= kScheme.size() || !same_name(bearer.substr(0, kScheme.size()), kScheme))
    return http_request.header("x-api-key");
  return bearer.substr(std::min(bearer.size(), bearer.find_first_not_of(' ', kScheme.size())));
}

}  // namespace

bool same_secret(std::string_view left, std::string_view right) {
  unsigned different = left.size() == right.size() ? 0U : 1U;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const unsigned char other = left.empty() ? 0 : static_cast<unsigned char>(left[i % left.size()]);
    different |= static_cast<unsigned>(static_cast<unsigned char>(right[i]) ^ other);
  }
  return different == 0;
}

KeyRing::KeyRing(const std::vector<std::string>& keys, const std::vector<std::string>& operator_keys) {
  for (const std::vector<std::string>* list : {&keys, &operator_keys}) {
    for (const std::string& key : *list) {
      const std::uint64_t owner = std::max<std::uint64_t>(1, checksum(std::as_bytes(std::span(key))));
      keys_.push_back({key, {owner, list == &operator_keys}});
    }
  }
}

KeyRing KeyRing::behind_front(const std::string& secret) {
  KeyRing ring({secret}, {});
  ring.behind_front_ = true;
  return ring;
}

std::string caller_text(const api::Caller& caller) {
  return fmt::format("{}{}", caller.owner, caller.is_operator ? kOperator : "");
}

std::optional<api::Caller> read_caller(std::string_view text) {
  api::Caller caller;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, caller.owner);
  if (error != std::errc()) return std::nullopt;
  const std::string_view word(rest, static_cast<std::size_t>(end - rest));
  caller.is_operator = word == kOperator;
  if (!word.empty() && !caller.is_operator) return std::nullopt;
  return caller;
}

/// The last key that fits counts, so that no comparison is left out and an operator's key goes first.
std::optional<api::Caller> KeyRing::caller(const HttpRequest& http_request) const {
  if (keys_.empty()) return api::Caller{0, true};
  const std::string_view given = given_key(http_request);
  std::optional<api::Caller> found;
  for (const Key& key : keys_) {
    if (!key.text.empty() && same_secret(given, key.text)) found = key.caller;
  }
  if (found && behind_front_) return read_caller(http_request.header(kCallerHeader));
  return found;
}

}  // namespace ft::server
