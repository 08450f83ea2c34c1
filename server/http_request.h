// A request as it came, without the HTTP library. Owner: its connection. Thread: one at a time. Cost: copies
// of the head's fields.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/http_response.h"

namespace ft::server {

struct HttpRequest {
  std::string method, path, query, body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string id;    // the client's x-request-id, or ours
  std::string here;  // the address at which the client reached this machine

  /// The first field of this name, whatever its case; empty if there is none.
  std::string_view header(std::string_view name) const;
  /// The value of this name in the query, its escapes decoded; empty if there is none.
  std::string query_value(std::string_view name) const;
  /// Anthropic's for /v1/messages and wherever the anthropic-version header is.
  api::Dialect dialect() const;
};

/// %41 is A; what is no escape stays.
std::string percent_decoded(std::string_view text);

/// Case does not matter; ASCII.
bool same_name(std::string_view left, std::string_view right);

}  // namespace ft::server
