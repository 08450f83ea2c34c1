// Framing: rejects requests whose end is ambiguous. A proxy and this server could otherwise disagree about
// where the next request begins (request smuggling). These checks cover cases that the HTTP library accepts;
// a failed check closes the connection. Source: RFC 9112 sections 3.2, 6.1, and 6.3.
#pragma once

#include <optional>
#include <string>

#include "server/http_request.h"

namespace ft::server {

struct FramingFault {
  int status = 400;  // or 501: unsupported transfer coding
  std::string sentence;
};

/// `version`: 10 or 11.
std::optional<FramingFault> framing_fault(const HttpRequest& http_request, unsigned version);

}  // namespace ft::server
