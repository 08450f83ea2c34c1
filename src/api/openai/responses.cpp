#include "api/openai/responses.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/known_fields.h"
#include "api/openai/response_replay.h"
#include "api/openai/responses_request.h"
#include "api/openai/responses_writer.h"
#include "api/prepare.h"

namespace ft::api {
namespace {

/// prepare() names messages in errors; this API names input.
Error in_its_words(Error error) {
  if (error.field == "messages") error.field = "input";
  return error;
}

Error not_kept(const std::string& id) {
  return {Code::kNotFound, fmt::format("no response \"{}\" is stored on this server", id), "response_id"};
}

}  // namespace

Result<Exchange> responses_exchange(const ModelInfo& model_info, std::string_view body,
                                    const ResponseMeta& meta) {
  FT_ASSIGN(const Json json, parse_body(body));
  Notes notes;
  FT_TRY(check_members(json, Body::kResponses, model_info.strict_fields, notes));
  FT_ASSIGN(ResponsesRequest request, read_responses(json, model_info.responses.get(), meta.caller));
  notes.skipped = request.call.notes.skipped;
  Result<Prepared> prepared = prepare(model_info, request.call, meta.seed, meta.caller);
  if (!prepared.ok()) return in_its_words(prepared.error());
  const bool stream = request.call.stream;
  auto writer = std::make_unique<ResponsesWriter>(model_info, std::move(request), meta);
  return Exchange{stream, std::move(writer), std::move(prepared->requests), std::move(notes)};
}

std::size_t history_bytes(const ModelInfo& model_info, std::string_view body, const Caller& caller) {
  if (model_info.responses == nullptr || model_info.responses->size() == 0) return 0;
  const Result<Json> json = parse_body(body);
  if (!json.ok()) return 0;
  const Json* id = Fields(*json, "").find("previous_response_id");
  if (id == nullptr || !id->is_string()) return 0;
  return model_info.responses->history_bytes(id->get<std::string>(), caller);
}

Result<HttpResponse> responses_count_reply(const ModelInfo& model_info, std::string_view body,
                                           const Caller& caller) {
  FT_ASSIGN(const Json json, parse_body(body));
  Notes notes;
  FT_TRY(check_members(json, Body::kResponses, model_info.strict_fields, notes));
  FT_ASSIGN(const ResponsesRequest request, read_responses(json, model_info.responses.get(), caller));
  notes.skipped = request.call.notes.skipped;
  Result<std::vector<std::int32_t>> prompt = prompt_of(model_info, request.call);
  if (!prompt.ok()) return in_its_words(prompt.error());
  HttpResponse reply;
  reply.body = dump(Json{{"object", "response.input_tokens"}, {"input_tokens", prompt->size()}});
  reply.headers = notes.headers();
  return reply;
}

Result<HttpResponse> stored_response_reply(const ModelInfo& model_info, const std::string& id,
                                           const Caller& caller, const StoredQuery& query) {
  std::optional<StoredResponse> stored;
  if (model_info.responses != nullptr) stored = model_info.responses->get(id, caller);
  if (!stored) return not_kept(id);
  if (query.path.ends_with("/input_items")) return input_items_reply(*stored, query);
  if (query.stream == "true") return replay_reply(*stored, query);
  HttpResponse reply;
  reply.body = std::move(stored->body);
  return reply;
}

Result<HttpResponse> delete_response_reply(const ModelInfo& model_info, const std::string& id,
                                           const Caller& caller) {
  if (model_info.responses == nullptr || !model_info.responses->erase(id, caller)) return not_kept(id);
  HttpResponse reply;
  reply.body = dump(Json{{"id", id}, {"object", "response"}, {"deleted", true}});
  return reply;
}

}  // namespace ft::api
