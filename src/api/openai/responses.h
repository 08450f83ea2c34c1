// Routes of the Responses API: POST /v1/responses from a body to the exchange that decodes it, its token
// counter /v1/responses/input_tokens, and GET and DELETE of stored responses at /v1/responses/{id}, with
// their input at /v1/responses/{id}/input_items. Several threads may call these functions at once. Errors:
// kNotFound for an unknown id and for an id of another key; responses_request.h and prepare.h list more.
#pragma once

#include <string_view>

#include "api/openai/response_replay.h"
#include "api/writer.h"

namespace ft::api {

/// `model_info` must outlive the exchange.
Result<Exchange> responses_exchange(const ModelInfo& model_info, std::string_view body,
                                    const ResponseMeta& meta);
/// The size of the conversation in previous_response_id; 0 if it is not given or not stored.
std::size_t history_bytes(const ModelInfo& model_info, std::string_view body, const Caller& caller);
/// Equals the input_tokens of the answer to the same body.
Result<HttpResponse> responses_count_reply(const ModelInfo& model_info, std::string_view body,
                                           const Caller& caller);
/// The response; its events (stream), or its input items, depending on the query.
Result<HttpResponse> stored_response_reply(const ModelInfo& model_info, const std::string& id,
                                           const Caller& caller, const StoredQuery& query = {});
Result<HttpResponse> delete_response_reply(const ModelInfo& model_info, const std::string& id,
                                           const Caller& caller);

}  // namespace ft::api
