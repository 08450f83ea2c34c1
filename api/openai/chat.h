// POST /v1/chat/completions from its body to what decodes it. Thread: any, several at once. Cost: rendering
// and encoding. Errors: those of reading (chat_request.h) and preparing (prepare.h).
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `served` must outlive the exchange.
Result<Exchange> chat_exchange(const ModelInfo& model_info, std::string_view body, const ResponseMeta& meta);

}  // namespace ft::api
