#include "api/openai/chat.h"

#include <nlohmann/json.hpp>

#include "api/known_fields.h"
#include "api/openai/chat_request.h"
#include "api/openai/chat_writer.h"
#include "api/prepare.h"

namespace ft::api {

Result<Exchange> chat_exchange(const ModelInfo& model_info, std::string_view body, const ResponseMeta& meta) {
  FT_ASSIGN(const Json json, parse_body(body));
  Notes notes;
  FT_TRY(check_members(json, Body::kChat, model_info.strict_fields, notes));
  FT_ASSIGN(const GenerateParams call, read_chat(json));
  notes.skipped = call.notes.skipped;
  FT_ASSIGN(Prepared prepared, prepare(model_info, call, meta.seed, meta.caller));
  auto writer = std::make_unique<ChatWriter>(model_info, call, meta, prepared.requests.size());
  return Exchange{call.stream, std::move(writer), std::move(prepared.requests), std::move(notes)};
}

}  // namespace ft::api
