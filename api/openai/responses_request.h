// POST /v1/responses: its body as a Call, and what its answer repeats or keeps. Custom tools are offered to
// the model as functions with one text, `input`; hosted tools and namespaces are left out. What came before
// previous_response_id is put before the input. Source: OpenAI's API reference. Thread: any. Cost: linear in
// the body and the history. Errors: kInvalid and kUnsupported with the field; kNotFound for an unknown
// previous_response_id.
#pragma once

#include <set>
#include <string>

#include "api/fields.h"
#include "api/generate_params.h"
#include "api/openai/response_store.h"

namespace ft::api {

struct ResponsesRequest {
  GenerateParams call;
  std::string items;              // JSON list: history and input, for those that continue from here
  std::string echo;               // JSON object: members of the response that repeat the request
  std::set<std::string> customs;  // names of custom tools
  bool store = true;
  bool summarises = false;  // reasoning is given as a summary, because one was asked for
};

/// `store` may be null: then nothing is known.
Result<ResponsesRequest> read_responses(const Json& body, ResponseStore* store);

}  // namespace ft::api
