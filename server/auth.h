// API keys: checks Authorization: Bearer KEY or x-api-key: KEY in constant time. The router decides which
// paths need no key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http_request.h"
#include "server/options.h"

namespace ft::server {

/// The number of the request's key, from 1 on; 0: no key is required; -1: it has none that is valid.
int key_number(const HttpRequest& http_request, const std::vector<std::string>& keys);
/// True if the request has a valid key, or no key is required.
bool key_fits(const HttpRequest& http_request, const std::vector<std::string>& keys);
/// Who the request is from: a number of its key's text, which stays the same after a restart with other keys;
/// 0: no key is required.
std::uint64_t key_owner(const HttpRequest& http_request, const std::vector<std::string>& keys);
/// Compares in a time that depends only on the lengths.
bool same_secret(std::string_view left, std::string_view right);

}  // namespace ft::server
