#include "api/chat.h"

#include <nlohmann/json.hpp>

#include "api/chat_request.h"
#include "api/chat_writer.h"
#include "api/prepare.h"

namespace ft::api {

Result<Exchange> chat_exchange(const Served& served, std::string_view body, const Stamp& stamp) {
  FT_ASSIGN(const Json json, parse_body(body));
  FT_ASSIGN(const Call call, read_chat(json));
  FT_ASSIGN(Prepared prepared, prepare(served, call, stamp.seed));
  auto writer = std::make_unique<ChatWriter>(served, call, stamp, prepared.requests.size());
  return Exchange{call.stream, std::move(writer), std::move(prepared.requests)};
}

}  // namespace ft::api
