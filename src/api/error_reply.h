// Errors in the form that each dialect's SDK expects: a status, a kind, a sentence, and the field. The status
// permits a retry only where a retry can help. kInvalid and kUnsupported: 400; kTooLong: 400
// (context_length_exceeded); kNotFound: 404; kBusy: 429 with Retry-After; kExhausted: 507; kCancelled: 503
// (Anthropic: 529); all others: 500. Permanent errors carry `x-should-retry: false`. For Anthropic's clients
// an error of the field `thread` has the details with which the SDK sends the whole conversation instead.
#pragma once

#include <string>

#include "api/http_response.h"
#include "base/result.h"

namespace ft::api {

/// `request_id` may be empty. `status` 0 derives the status from the error code; other values are for errors
/// of HTTP itself (401, 404, 405, 413 ...).
HttpResponse error_reply(Dialect dialect, const Error& error, const std::string& request_id, int status = 0);

}  // namespace ft::api
