#include "api/anthropic/messages.h"

#include <nlohmann/json.hpp>

#include "api/anthropic/messages_request.h"
#include "api/anthropic/messages_writer.h"
#include "api/fields.h"
#include "api/known_fields.h"
#include "api/prepare.h"

namespace ft::api {

Result<Exchange> messages_exchange(const ModelInfo& model_info, std::string_view body,
                                   const ResponseMeta& meta) {
  FT_ASSIGN(const Json json, parse_body(body));
  Notes notes;
  FT_TRY(check_members(json, Body::kMessages, model_info.strict_fields, notes));
  FT_ASSIGN(const GenerateParams call, read_messages_call(json, Purpose::kAnswer));
  notes.skipped = call.notes.skipped;
  FT_ASSIGN(Prepared prepared, prepare(model_info, call, meta.seed, meta.caller));
  auto writer = std::make_unique<MessagesWriter>(model_info, call, meta, prepared.prompt_tokens.front());
  return Exchange{call.stream, std::move(writer), std::move(prepared.requests), std::move(notes)};
}

Result<HttpResponse> count_tokens_reply(const ModelInfo& model_info, std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  Notes notes;
  FT_TRY(check_members(json, Body::kMessages, model_info.strict_fields, notes));
  FT_ASSIGN(const GenerateParams call, read_messages_call(json, Purpose::kCount));
  notes.skipped = call.notes.skipped;
  FT_ASSIGN(const auto tokens, prompt_of(model_info, call));
  HttpResponse reply;
  reply.body = dump(Json{{"input_tokens", tokens.size()}});
  reply.headers = notes.headers();
  return reply;
}

}  // namespace ft::api
