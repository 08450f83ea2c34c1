// Feeds arbitrary bodies to POST /v1/messages: parsing never crashes, accepted messages and tools are JSON,
// and an error names its field.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/anthropic/messages_request.h"
#include "api/fields.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = ft::api::parse_body({reinterpret_cast<const char*>(data), size});
  if (!body.ok()) return 0;
  for (const auto purpose : {ft::api::Purpose::kAnswer, ft::api::Purpose::kCount}) {
    const auto call = ft::api::read_messages_call(*body, purpose);
    if (!call.ok()) {
      if (call.error().field.empty() || call.error().message.empty()) std::abort();
      continue;
    }
    const ft::api::Json messages = ft::api::Json::parse(call->messages, nullptr, false);
    if (!messages.is_array() || messages.empty()) std::abort();
    if (!call->tools.empty() && !ft::api::Json::parse(call->tools, nullptr, false).is_array()) std::abort();
  }
  return 0;
}
