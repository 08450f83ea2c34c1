// POST /v1/completions from its body to what decodes it: text, ids or lists of them go on as they stand, each
// n times; with a suffix the model fills the middle, if it knows how. Thread: any, several at once. Cost:
// encoding, linear in the prompts. Errors: those of reading (completions_request.h) and preparing
// (prepare.h); kUnsupported naming suffix for a model without the tokens for it.
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `served` must outlive the exchange.
Result<Exchange> completions_exchange(const ModelInfo& model_info, std::string_view body,
                                      const ResponseMeta& meta);

}  // namespace ft::api
