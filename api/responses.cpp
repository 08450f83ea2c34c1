#include "api/responses.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/prepare.h"
#include "api/responses_request.h"
#include "api/responses_writer.h"

namespace ft::api {
namespace {

/// prepare() speaks of messages, this API of input.
Error in_its_words(Error error) {
  if (error.field == "messages") error.field = "input";
  return error;
}

Error not_kept(const std::string& id) {
  return {Code::kNotFound, fmt::format("no response \"{}\" is kept here", id), "response_id"};
}

}  // namespace

Result<Exchange> responses_exchange(const Served& served, std::string_view body, const Stamp& stamp) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(ResponsesRequest request, read_responses(json, served.responses.get()));
  Result<Prepared> prepared = prepare(served, request.call, stamp.seed);
  if (!prepared.ok()) return in_its_words(prepared.error());
  const bool stream = request.call.stream;
  auto writer = std::make_unique<ResponsesWriter>(served, std::move(request), stamp);
  return Exchange{stream, std::move(writer), std::move(prepared->requests)};
}

std::size_t history_bytes(const Served& served, std::string_view body) {
  if (served.responses == nullptr || served.responses->size() == 0) return 0;
  const Result<Json> json = parse_body(body);
  if (!json.ok()) return 0;
  const Json* id = Fields(*json, "").find("previous_response_id");
  return id != nullptr && id->is_string() ? served.responses->history_bytes(id->get<std::string>()) : 0;
}

Result<Reply> responses_count_reply(const Served& served, std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(const ResponsesRequest request, read_responses(json, served.responses.get()));
  Result<std::vector<std::int32_t>> prompt = prompt_of(served, request.call);
  if (!prompt.ok()) return in_its_words(prompt.error());
  Reply reply;
  reply.body = dump(Json{{"object", "response.input_tokens"}, {"input_tokens", prompt->size()}});
  return reply;
}

Result<Reply> stored_response_reply(const Served& served, const std::string& id) {
  std::optional<StoredResponse> stored;
  if (served.responses != nullptr) stored = served.responses->get(id);
  if (!stored) return not_kept(id);
  Reply reply;
  reply.body = std::move(stored->body);
  return reply;
}

Result<Reply> delete_response_reply(const Served& served, const std::string& id) {
  if (served.responses == nullptr || !served.responses->erase(id)) return not_kept(id);
  Reply reply;
  reply.body = dump(Json{{"id", id}, {"object", "response"}, {"deleted", true}});
  return reply;
}

}  // namespace ft::api
