// POST /v1/completions: from a body to the exchange that decodes it. Raw texts, ids, or lists of them are
// continued, each n times. With a suffix, the model fills in the middle if it has the tokens for it;
// otherwise the error is kUnsupported and names suffix. Several threads may call this at once. Other errors
// are as in completions_request.h and prepare.h.
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `model_info` must outlive the exchange.
Result<Exchange> completions_exchange(const ModelInfo& model_info, std::string_view body,
                                      const ResponseMeta& meta);

}  // namespace ft::api
