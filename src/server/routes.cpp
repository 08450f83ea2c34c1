#include "server/routes.h"

#include <array>

#include "api/anthropic/messages.h"
#include "api/listing.h"
#include "api/openai/chat.h"
#include "api/openai/completions.h"
#include "api/openai/responses.h"

namespace ft::server {
namespace {

constexpr std::string_view kRead = "GET, HEAD", kReadAndDelete = "GET, HEAD, DELETE", kPost = "POST";
constexpr std::string_view kId = "{id}";
constexpr std::string_view kModels = "/v1/models/";  // the only ids with a slash in them: ORG/NAME

/// A reply that is the same for every caller.
template <Result<api::HttpResponse> (*kReply)(const api::ModelInfo&, std::string_view)>
Result<api::HttpResponse> for_all(const api::ModelInfo& model_info, std::string_view body,
                                  const api::Caller&) {
  return kReply(model_info, body);
}

constexpr Route open_to_all(std::string_view pattern, Endpoint endpoint) {
  return {.pattern = pattern, .methods = kRead, .endpoint = endpoint, .needs_key = false};
}
constexpr Route read(std::string_view pattern, Endpoint endpoint, std::string_view methods = kRead) {
  return {.pattern = pattern, .methods = methods, .endpoint = endpoint};
}
constexpr Route decoding(std::string_view pattern, Route::Decode decode) {
  return {.pattern = pattern, .methods = kPost, .decode = decode};
}
constexpr Route replying(std::string_view pattern, Route::Reply reply) {
  return {.pattern = pattern, .methods = kPost, .reply = reply};
}
constexpr Route acting(std::string_view pattern, Endpoint endpoint) {
  return {.pattern = pattern, .methods = kPost, .endpoint = endpoint};
}

/// Exact paths precede the patterns that would match them too.
constexpr std::array<Route, 23> kRoutes{{
    open_to_all("/", Endpoint::kPage),
    open_to_all("/health", Endpoint::kHealth),
    read("/metrics", Endpoint::kMetrics),
    read("/props", Endpoint::kProps),
    read("/v1/models", Endpoint::kModels),
    read("/v1/cache", Endpoint::kCache, kReadAndDelete),
    decoding("/v1/chat/completions", api::chat_exchange),
    decoding("/v1/completions", api::completions_exchange),
    decoding("/v1/responses", api::responses_exchange),
    decoding("/v1/messages", api::messages_exchange),
    replying("/v1/responses/input_tokens", api::responses_count_reply),
    acting("/v1/responses/compact", Endpoint::kCompact),
    replying("/v1/tokenize", for_all<api::tokenize_reply>),
    replying("/v1/detokenize", for_all<api::detokenize_reply>),
    replying("/v1/messages/count_tokens", for_all<api::count_tokens_reply>),
    acting("/v1/chat/completions/{id}/cancel", Endpoint::kCancel),
    acting("/v1/models/{id}/load", Endpoint::kLoad),
    acting("/v1/models/{id}/unload", Endpoint::kUnload),
    read("/v1/models/{id}", Endpoint::kModel),
    acting("/v1/responses/{id}/cancel", Endpoint::kCancel),
    read("/v1/responses/{id}/input_items", Endpoint::kStoredResponse),
    read("/v1/responses/{id}", Endpoint::kStoredResponse, kReadAndDelete),
    {.pattern = "other", .methods = "", .endpoint = Endpoint::kUnknown},
}};

}  // namespace

bool Route::answers(std::string_view method) const {
  for (std::string_view rest = methods; !rest.empty();) {
    const std::size_t end = rest.find(", ");
    if (rest.substr(0, end) == method) return true;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 2);
  }
  return false;
}

std::string_view Route::id_in(std::string_view path) const {
  const std::size_t at = pattern.find(kId);
  if (at == std::string_view::npos) return {};
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kId.size());
  if (path.size() <= before.size() + after.size()) return {};
  if (!path.starts_with(before) || !path.ends_with(after)) return {};
  const std::string_view id = path.substr(before.size(), path.size() - before.size() - after.size());
  const bool several_parts = id.find('/') != std::string_view::npos;
  return several_parts && before != kModels ? std::string_view() : id;
}

std::span<const Route> all_routes() { return kRoutes; }

const Route& route_of(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.methods.empty()) continue;
    const bool whole = route.pattern.find(kId) == std::string_view::npos;
    if (whole ? path == route.pattern : !route.id_in(path).empty()) return route;
  }
  return kRoutes.back();
}

}  // namespace ft::server
