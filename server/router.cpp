#include "server/router.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>

#include "api/chat.h"
#include "api/choice.h"
#include "api/completions.h"
#include "api/error_reply.h"
#include "api/listing.h"
#include "api/messages.h"
#include "api/responses.h"
#include "base/utf8.h"
#include "server/guard.h"
#include "server/metrics_text.h"
#include "server/page.h"
#include "server/routes.h"

namespace ft::server {
namespace {

using api::Dialect;
using api::Reply;

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Reply refusal(const Incoming& incoming, const Error& error, int status = 0) {
  return api::error_reply(incoming.dialect(), error, incoming.id, status);
}

using Decodes = Result<api::Exchange> (*)(const api::Served&, std::string_view body, const api::Stamp&);
using Replies = Result<Reply> (*)(const api::Served&, std::string_view);

struct DecodingRoute {
  std::string_view path;
  Decodes decode;
};
constexpr std::array<DecodingRoute, 4> kDecoding{{
    {"/v1/chat/completions", api::chat_exchange},
    {"/v1/completions", api::completions_exchange},
    {"/v1/responses", api::responses_exchange},
    {"/v1/messages", api::messages_exchange},
}};

struct ReplyingRoute {
  std::string_view path;
  Replies reply;
};
constexpr std::array<ReplyingRoute, 4> kReplying{{
    {"/v1/responses/input_tokens", api::responses_count_reply},
    {"/v1/tokenize", api::tokenize_reply},
    {"/v1/detokenize", api::detokenize_reply},
    {"/v1/messages/count_tokens", api::count_tokens_reply},
}};

/// A model, or an answer of /v1/responses that is kept, by the id at the path's end.
Result<Reply> one_of_many(const Incoming& incoming, const api::Served& served) {
  const std::string id(route_of(incoming.path).id_in(incoming.path));
  if (incoming.path.starts_with("/v1/models/")) return api::model_reply(served, id, incoming.dialect());
  if (incoming.method == "DELETE") return api::delete_response_reply(served, id);
  return api::stored_response_reply(served, id);
}

Reply preflight_reply(const Incoming& incoming) {
  Reply reply;
  reply.status = 204, reply.type.clear();
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
  const std::string_view asked = incoming.header("access-control-request-headers");
  reply.headers.emplace_back("Access-Control-Allow-Headers",
                             asked.empty() ? "authorization, content-type" : std::string(asked));
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

bool is_cancel(const Incoming& incoming) { return incoming.path.ends_with("/cancel"); }

bool needs_no_key(const Incoming& incoming) { return incoming.path == "/health" || incoming.path == "/"; }

}  // namespace

std::vector<std::pair<std::string, std::string>> Router::standing_headers(const Incoming& incoming) const {
  std::vector<std::pair<std::string, std::string>> headers;
  headers.emplace_back("x-request-id", incoming.id);
  if (incoming.dialect() == Dialect::kAnthropic) headers.emplace_back("request-id", incoming.id);
  if (const std::string_view origin = incoming.header("origin");
      !origin.empty() && origin_fits(origin, options_.origins)) {
    headers.emplace_back("Access-Control-Allow-Origin", origin);
    headers.emplace_back("Vary", "Origin");
    headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, request-id, X-Speculation");
  }
  return headers;
}

/// HTTP/1.0 may come without a Host; no browser does.
std::optional<Reply> Router::judge_host(const Incoming& incoming) const {
  const std::string_view given = incoming.header("host");
  const bool has_host = std::any_of(incoming.headers.begin(), incoming.headers.end(),
                                    [](const auto& field) { return same_name(field.first, "host"); });
  if (!has_host) return std::nullopt;
  const std::optional<Authority> host = parse_authority(given);
  if (!host) return refusal(incoming, {Code::kInvalid, "Host is not a host with or without a port"}, 400);
  if (is_allowed(*host, incoming.here)) return std::nullopt;
  return refusal(
      incoming,
      {Code::kInvalid, fmt::format("\"{}\" is not an address of this machine; start the server with "
                                   "--allow-host {} if this name is its own",
                                   host->host, host->host)},
      403);
}

bool Router::is_allowed(const Authority& host, std::string_view here) const {
  const std::optional<Authority> own = parse_authority(options_.host);
  return (own && own->host == host.host) || options_.host == host.host ||
         host_fits(host, here, options_.hosts);
}

std::optional<Reply> Router::judge_route(const Incoming& incoming) const {
  const Route& route = route_of(incoming.path);
  if (route.methods.empty()) {
    return refusal(incoming, {Code::kNotFound, fmt::format("there is no {}; GET /v1/models lists what is "
                                                           "served, the README what can be asked",
                                                           incoming.path)});
  }
  if (!route.answers(incoming.method)) {
    const std::string_view first = route.methods.substr(0, route.methods.find(','));
    Reply reply = refusal(
        incoming,
        {Code::kInvalid, fmt::format("{} answers {}, not {}", incoming.path, first, incoming.method)}, 405);
    reply.headers.emplace_back("Allow", fmt::format("{}, OPTIONS", route.methods));
    return reply;
  }
  if (incoming.method != "POST") return std::nullopt;
  if (app_.served() == nullptr) {
    return refusal(incoming, {Code::kCancelled, "the model is being loaded; try again"});
  }
  if (app_.draining() && !is_cancel(incoming)) {
    return refusal(incoming, {Code::kCancelled, "the server is stopping"});
  }
  return std::nullopt;
}

std::optional<Reply> Router::judge(const Incoming& incoming) const {
  if (std::optional<Reply> reply = judge_host(incoming)) return reply;
  const std::string_view origin = incoming.header("origin");
  const std::optional<Origin> page = parse_origin(origin);
  // An editor's extension is not a web page; what cannot be read as an origin counts as one.
  const bool web = !origin.empty() && (!page || page->scheme == "http" || page->scheme == "https");
  if (web && !origin_fits(origin, options_.origins) && !is_own_page(origin, incoming.header("host"))) {
    return refusal(
        incoming,
        {Code::kInvalid,
         fmt::format("pages of {} may not use this server; start it with --cors {}", origin, origin)},
        403);
  }
  if (incoming.method == "OPTIONS") return preflight_reply(incoming);
  if (!needs_no_key(incoming) && !key_fits(incoming, options_.api_keys)) {
    return refusal(incoming,
                   {Code::kInvalid,
                    "the API key is missing or wrong; send it as Authorization: Bearer KEY, or "
                    "as x-api-key"},
                   401);
  }
  return judge_route(incoming);
}

Reply Router::health() const {
  Reply reply;
  if (app_.draining()) {
    reply.status = 503, reply.body = R"({"status":"stopping"})";
  } else if (app_.engine() == nullptr) {
    reply.status = 503;
    reply.body = fmt::format(R"({{"status":"loading","progress":{:.3f}}})", app_.progress());
  } else if (!app_.engine()->status().lost.empty()) {
    reply.status = 503, reply.body = R"({"status":"lost"})";
  } else {
    reply.body = R"({"status":"ready"})";
  }
  return reply;
}

/// GET and DELETE of what needs no body.
Answer Router::get(const Incoming& incoming) const {
  if (incoming.path == "/") return page_reply(incoming, ui_asset());
  if (incoming.path == "/health") return health();
  const std::shared_ptr<const api::Served> served = app_.served();
  if (served == nullptr) return refusal(incoming, {Code::kCancelled, "the model is being loaded; try again"});
  EngineClient& engine = *app_.engine();
  if (incoming.path == "/v1/models") {
    const api::Page page{incoming.query_value("limit"), incoming.query_value("after_id"),
                         incoming.query_value("before_id")};
    Result<Reply> models = api::models_reply(*served, incoming.dialect(), page);
    return models.ok() ? std::move(*models) : refusal(incoming, models.error());
  }
  if (incoming.path == "/props") return api::props_reply(*served);
  if (incoming.path == "/v1/cache") {
    if (incoming.method == "DELETE") engine.clear_cache();
    return api::cache_reply(engine.cache(), incoming.method == "DELETE");
  }
  if (incoming.path == "/metrics") {
    Reply reply;
    reply.type = "text/plain; version=0.0.4; charset=utf-8";
    reply.body = metrics_text(engine.status(), engine.cache(), app_.http());
    return reply;
  }
  Result<Reply> reply = one_of_many(incoming, *served);
  if (!reply.ok()) return refusal(incoming, reply.error());
  return std::move(*reply);
}

Answer Router::post(const Incoming& incoming, const api::Served& served) const {
  for (const ReplyingRoute& route : kReplying) {
    if (incoming.path != route.path) continue;
    Result<Reply> reply = route.reply(served, incoming.body);
    if (!reply.ok()) return refusal(incoming, reply.error());
    return std::move(*reply);
  }
  for (const DecodingRoute& route : kDecoding) {
    if (incoming.path != route.path) continue;
    const api::Stamp stamp{api::random_id(""), now_s(), api::random_seed(), incoming.id};
    Result<api::Exchange> exchange = route.decode(served, incoming.body, stamp);
    if (!exchange.ok()) return refusal(incoming, exchange.error());
    return std::move(*exchange);
  }
  const std::string id(route_of(incoming.path).id_in(incoming.path));
  if (!app_.cancel(id)) {
    return refusal(incoming,
                   {Code::kNotFound, fmt::format("no answer with the id \"{}\" is being decoded", id)});
  }
  return api::cancelled_reply(id);
}

Answer Router::route(const Incoming& incoming) const {
  if (std::optional<Reply> reply = judge_route(incoming)) return std::move(*reply);
  if (incoming.method != "POST") return get(incoming);
  if (!utf8_valid(incoming.body)) {
    return refusal(incoming, {Code::kInvalid, "the body is not UTF-8; encode it before sending"});
  }
  return post(incoming, *app_.served());
}

}  // namespace ft::server
