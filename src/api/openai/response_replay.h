// Stored responses as a client reads them again: the events of their stream with the same pieces and sequence
// numbers, and the items of their input. Source: OpenAI's API reference, "Get a model response" and "List
// input items". Errors name the parameter of the query.
#pragma once

#include <string>
#include <string_view>

#include "api/http_response.h"
#include "api/openai/response_store.h"
#include "base/result.h"

namespace ft::api {

/// The query of GET /v1/responses/{id}; an empty text is an absent parameter.
struct StoredQuery {
  std::string path = {};                           // of the request
  std::string stream = {}, starting_after = {};    // of the response
  std::string limit = {}, order = {}, after = {};  // of its input items
};

inline constexpr int kMaxListedItems = 100;

/// Events after the sequence number `starting_after`.
Result<HttpResponse> replay_reply(const StoredResponse& stored, const StoredQuery& query);
/// One page of the items before the answer, the newest first unless `order` is asc.
Result<HttpResponse> input_items_reply(const StoredResponse& stored, const StoredQuery& query);

}  // namespace ft::api
