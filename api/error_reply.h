// Errors as each dialect's SDK knows them: a status that is only retried where a retry can help, a kind, a
// sentence, and the field. Pure. Thread: any.
//   kInvalid, kUnsupported 400; kTooLong 400 (context_length_exceeded); kNotFound 404; kBusy 429 with
//   Retry-After; kExhausted 507 and kCancelled 503 (Anthropic: 529); everything else 500. `x-should-retry:
//   false` goes with those that will fail again.
#pragma once

#include <string>

#include "api/http_response.h"
#include "base/result.h"

namespace ft::api {

/// `request_id` may be empty. `status` 0 chooses by the error's code; others are for what HTTP itself refuses
/// (401, 404, 405, 413 ...).
HttpResponse error_reply(Dialect dialect, const Error& error, const std::string& request_id, int status = 0);

}  // namespace ft::api
