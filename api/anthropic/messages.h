// POST /v1/messages and /v1/messages/count_tokens from their bodies to what answers them. Thread: any,
// several at once. Cost: rendering and encoding. Errors: those of reading (messages_request.h) and preparing
// (prepare.h).
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `served` must outlive the exchange.
Result<Exchange> messages_exchange(const ModelInfo& model_info, std::string_view body,
                                   const ResponseMeta& meta);
/// {input_tokens}: those that the same body costs as a message, cached ones included.
Result<HttpResponse> count_tokens_reply(const ModelInfo& model_info, std::string_view body);

}  // namespace ft::api
