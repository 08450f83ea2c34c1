// POST /v1/responses: a body as GenerateParams, and the parts of it that the answer repeats or stores. The
// history of previous_response_id precedes the input; an unknown id is kNotFound. Source: OpenAI's API
// reference.
#pragma once

#include <string>

#include "api/fields.h"
#include "api/generate_params.h"
#include "api/openai/response_store.h"

namespace ft::api {

struct ResponsesRequest {
  GenerateParams call;
  std::string items;  // JSON list: history and input, stored for later requests
  std::string echo;   // JSON object: members of the response that repeat the request
  bool store = true;
  bool summarises = false;       // the client requested reasoning as a summary
  bool seals_reasoning = false;  // and a form of it that it can send back
};

/// `store` may be null: then every id is unknown, as an id of another caller always is.
Result<ResponsesRequest> read_responses(const Json& body, ResponseStore* store, const Caller& caller);

}  // namespace ft::api
