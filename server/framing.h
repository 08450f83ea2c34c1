// Framing: where a request's body ends must have one reading, or a proxy and this server disagree about where
// the next request begins (request smuggling). What the HTTP library lets pass is refused here, and the
// connection closed. Pure. Source: RFC 9112 sections 3.2, 6.1 and 6.3.
#pragma once

#include <optional>
#include <string>

#include "server/http_request.h"

namespace ft::server {

struct FramingFault {
  int status = 400;  // or 501: a transfer coding that this server does not know
  std::string sentence;
};

/// `version`: 10 or 11.
std::optional<FramingFault> framing_fault(const HttpRequest& http_request, unsigned version);

}  // namespace ft::server
