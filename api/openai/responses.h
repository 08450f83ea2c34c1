// The routes of the Responses API: POST /v1/responses from its body to what decodes it, its counting twin
// /v1/responses/input_tokens, and what is kept: GET and DELETE /v1/responses/{id}. Thread: any, several at
// once. Cost: rendering and encoding. Errors: those of reading (responses_request.h) and preparing
// (prepare.h); kNotFound for an id that is not kept.
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `served` must outlive the exchange.
Result<Exchange> responses_exchange(const ModelInfo& model_info, std::string_view body,
                                    const ResponseMeta& meta);
/// Of the conversation that previous_response_id names; 0: none, or no such one is kept.
std::size_t history_bytes(const ModelInfo& model_info, std::string_view body);
/// Exactly the input_tokens of the answer to the same body.
Result<HttpResponse> responses_count_reply(const ModelInfo& model_info, std::string_view body);
Result<HttpResponse> stored_response_reply(const ModelInfo& model_info, const std::string& id);
Result<HttpResponse> delete_response_reply(const ModelInfo& model_info, const std::string& id);

}  // namespace ft::api
