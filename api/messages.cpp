#include "api/messages.h"

#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "api/messages_request.h"
#include "api/messages_writer.h"
#include "api/prepare.h"

namespace ft::api {

Result<Exchange> messages_exchange(const Served& served, std::string_view body, const Stamp& stamp) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(const Call call, read_messages_call(json, Purpose::kAnswer));
  FT_ASSIGN(Prepared prepared, prepare(served, call, stamp.seed));
  auto writer = std::make_unique<MessagesWriter>(served, call, stamp, prepared.prompt_tokens.front());
  return Exchange{call.stream, std::move(writer), std::move(prepared.requests)};
}

Result<Reply> count_tokens_reply(const Served& served, std::string_view body) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(const Call call, read_messages_call(json, Purpose::kCount));
  FT_ASSIGN(const auto tokens, prompt_of(served, call));
  Reply reply;
  reply.body = dump(Json{{"input_tokens", tokens.size()}});
  return reply;
}

}  // namespace ft::api
