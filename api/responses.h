// The routes of the Responses API: POST /v1/responses from its body to what decodes it, its counting twin
// /v1/responses/input_tokens, and what is kept: GET and DELETE /v1/responses/{id}. Thread: any, several at
// once. Cost: rendering and encoding. Errors: those of reading (responses_request.h) and preparing
// (prepare.h); kNotFound for an id that is not kept.
#pragma once

#include <string_view>

#include "api/writer.h"

namespace ft::api {

/// `served` must outlive the exchange.
Result<Exchange> responses_exchange(const Served& served, std::string_view body, const Stamp& stamp);
/// Of the conversation that previous_response_id names; 0: none, or no such one is kept.
std::size_t history_bytes(const Served& served, std::string_view body);
/// Exactly the input_tokens of the answer to the same body.
Result<Reply> responses_count_reply(const Served& served, std::string_view body);
Result<Reply> stored_response_reply(const Served& served, const std::string& id);
Result<Reply> delete_response_reply(const Served& served, const std::string& id);

}  // namespace ft::api
