// POST /v1/chat/completions: from a body to the exchange that decodes it. Several threads may call this at
// once. Errors: as chat_request.h and prepare.h.
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `model_info` must outlive the exchange.
Result<Exchange> chat_exchange(const ModelInfo& model_info, std::string_view body, const ResponseMeta& meta);

}  // namespace ft::api
