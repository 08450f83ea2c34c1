// POST /v1/messages and /v1/messages/count_tokens: from a body to the exchange that answers it. Several
// threads may call these functions at once. Errors: as messages_request.h and prepare.h.
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `model_info` must outlive the exchange.
Result<Exchange> messages_exchange(const ModelInfo& model_info, std::string_view body,
                                   const ResponseMeta& meta);
/// {input_tokens}: the tokens that the same body costs as a message, including cached ones.
Result<HttpResponse> count_tokens_reply(const ModelInfo& model_info, std::string_view body);

}  // namespace ft::api
