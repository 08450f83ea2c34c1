// HttpRequest: one request as received, independent of the HTTP library. Its fields are copies of the request
// head.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/caller.h"
#include "api/http_response.h"

namespace ft::server {

struct HttpRequest {
  std::string method, path, query, body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string id;      // the client's x-request-id, or a generated one
  std::string here;    // the local address of the connection
  api::Caller caller;  // set by Router::check_request()

  /// The first field with this name, ignoring case; empty if absent.
  std::string_view header(std::string_view name) const;
  /// The decoded value of this query parameter; empty if absent.
  std::string query_value(std::string_view name) const;
  /// Anthropic's for /v1/messages and for requests with an anthropic-version header; OpenAI's otherwise.
  api::Dialect dialect() const;
};

/// Compares ASCII names, ignoring case.
bool same_name(std::string_view left, std::string_view right);

}  // namespace ft::server
