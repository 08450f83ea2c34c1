#include "server/router.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "api/choice.h"
#include "api/error_reply.h"
#include "api/listing.h"
#include "api/openai/responses.h"
#include "base/utf8.h"
#include "server/auth.h"
#include "server/metrics_text.h"
#include "server/page.h"
#include "server/routes.h"

namespace ft::server {
namespace {

using api::Dialect;
using api::HttpResponse;

std::int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

HttpResponse preflight_reply(const HttpRequest& http_request) {
  HttpResponse reply;
  reply.status = 204, reply.type.clear();
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
  const std::string_view asked = http_request.header("access-control-request-headers");
  reply.headers.emplace_back("Access-Control-Allow-Headers",
                             asked.empty() ? "authorization, content-type" : std::string(asked));
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

/// The whole cache for an operator, otherwise the part of the caller's key.
CacheReport cache_seen(const api::Caller& caller, const EngineClient& engine) {
  return caller.is_operator ? engine.cache() : engine.cache_of(caller.owner);
}

}  // namespace

HttpResponse refusal(const HttpRequest& http_request, const Error& error, int status) {
  return api::error_reply(http_request.dialect(), error, http_request.id, status);
}

HttpResponse settled(Result<HttpResponse> reply, const HttpRequest& http_request) {
  return reply.ok() ? std::move(*reply) : refusal(http_request, reply.error());
}

Result<HttpResponse> stored_response(const HttpRequest& http_request, const api::ModelInfo& model_info) {
  const std::string id(route_of(http_request.path).id_in(http_request.path));
  const api::Caller& caller = http_request.caller;
  if (http_request.method == "DELETE") return api::delete_response_reply(model_info, id, caller);
  const api::StoredQuery query{.path = std::string(http_request.path),
                               .stream = std::string(http_request.query_value("stream")),
                               .starting_after = std::string(http_request.query_value("starting_after")),
                               .limit = std::string(http_request.query_value("limit")),
                               .order = std::string(http_request.query_value("order")),
                               .after = std::string(http_request.query_value("after"))};
  return api::stored_response_reply(model_info, id, caller, query);
}

Error not_compacted() {
  return {
      Code::kUnsupported,
      "this server does not compact conversations; ask the model for a summary with POST /v1/responses, and "
      "send it instead of the older items"};
}

std::vector<std::pair<std::string, std::string>> Router::standing_headers(
    const HttpRequest& http_request) const {
  std::vector<std::pair<std::string, std::string>> headers;
  headers.emplace_back("x-request-id", http_request.id);
  if (http_request.dialect() == Dialect::kAnthropic) headers.emplace_back("request-id", http_request.id);
  if (const std::string_view origin = http_request.header("origin");
      !origin.empty() && origin_fits(origin, options_.origins)) {
    headers.emplace_back("Access-Control-Allow-Origin", origin);
    headers.emplace_back("Vary", "Origin");
    headers.emplace_back("Access-Control-Expose-Headers",
                         "x-request-id, request-id, X-Speculation, X-Skipped, X-Unknown-Fields");
  }
  return headers;
}

/// HTTP/1.0 requests may lack Host; browsers always send it.
std::optional<HttpResponse> Router::check_host(const HttpRequest& http_request) const {
  const std::string_view given = http_request.header("host");
  const bool has_host = std::any_of(http_request.headers.begin(), http_request.headers.end(),
                                    [](const auto& field) { return same_name(field.first, "host"); });
  if (!has_host) return std::nullopt;
  const std::optional<Authority> host = parse_authority(given);
  if (!host)
    return refusal(http_request,
                   {Code::kInvalid, "Host must be a host name or address, with an optional port"}, 400);
  if (is_allowed(*host, http_request.here)) return std::nullopt;
  return refusal(http_request,
                 {Code::kInvalid, fmt::format("\"{}\" is not an address of this machine; start the server "
                                              "with --allow-host {} if this is its name",
                                              host->host, host->host)},
                 403);
}

bool Router::is_allowed(const Authority& host, std::string_view here) const {
  const std::optional<Authority> own = parse_authority(options_.host);
  return (own && own->host == host.host) || options_.host == host.host ||
         host_fits(host, here, options_.hosts);
}

std::optional<HttpResponse> Router::check_route(const HttpRequest& http_request) const {
  const Route& route = route_of(http_request.path);
  if (route.methods.empty()) {
    return refusal(http_request,
                   {Code::kNotFound, fmt::format("unknown path {}; GET /v1/models lists the models "
                                                 "served, and the README lists the endpoints",
                                                 http_request.path)});
  }
  if (!route.answers(http_request.method)) {
    const std::string_view first = route.methods.substr(0, route.methods.find(','));
    HttpResponse reply = refusal(
        http_request,
        {Code::kInvalid, fmt::format("{} answers {}, not {}", http_request.path, first, http_request.method)},
        405);
    reply.headers.emplace_back("Allow", fmt::format("{}, OPTIONS", route.methods));
    return reply;
  }
  if (http_request.method != "POST") return std::nullopt;
  if (app_.model_info() == nullptr && !app_.is_front()) {
    return refusal(http_request, {Code::kCancelled, "the model is being loaded; try again"});
  }
  if (app_.draining() && route.endpoint != Endpoint::kCancel) {
    return refusal(http_request, {Code::kCancelled, "the server is stopping"});
  }
  return std::nullopt;
}

std::optional<HttpResponse> Router::check_request(HttpRequest& http_request) const {
  if (std::optional<HttpResponse> reply = check_host(http_request)) return reply;
  const std::string_view origin = http_request.header("origin");
  const std::optional<Origin> page = parse_origin(origin);
  // An editor extension is not a web page; an unreadable origin counts as a web page.
  const bool web = !origin.empty() && (!page || page->scheme == "http" || page->scheme == "https");
  if (web && !origin_fits(origin, options_.origins) && !is_own_page(origin, http_request.header("host"))) {
    return refusal(
        http_request,
        {Code::kInvalid,
         fmt::format("pages of {} may not use this server; start it with --cors {}", origin, origin)},
        403);
  }
  if (http_request.method == "OPTIONS") return preflight_reply(http_request);
  const std::optional<api::Caller> caller = keys_.get()->caller(http_request);
  if (!caller && route_of(http_request.path).needs_key) {
    return refusal(http_request,
                   {Code::kInvalid,
                    "the API key is missing or wrong; send it as Authorization: Bearer KEY, or "
                    "as x-api-key"},
                   401);
  }
  if (caller) http_request.caller = *caller;
  return check_route(http_request);
}

HttpResponse Router::health() const {
  HttpResponse reply;
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

HttpResponse Router::cache(const HttpRequest& http_request, EngineClient& engine) {
  const bool clears = http_request.method == "DELETE";
  const api::Caller& caller = http_request.caller;
  if (clears && caller.is_operator) engine.clear_cache();
  if (clears && !caller.is_operator) engine.clear_cache_of(caller.owner);
  return api::cache_reply(cache_seen(caller, engine), clears);
}

HttpResponse Router::metrics(const HttpRequest& http_request, const EngineClient& engine) const {
  HttpResponse reply;
  reply.type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body =
      metrics_text(engine.status(), cache_seen(http_request.caller, engine), app_.http(), power_facts());
  return reply;
}

/// Handles GET and DELETE, which need no body.
Answer Router::get(const HttpRequest& http_request) const {
  const Route& route = route_of(http_request.path);
  if (route.endpoint == Endpoint::kPage) return page_reply(http_request, ui_asset());
  if (route.endpoint == Endpoint::kHealth) return health();
  const std::shared_ptr<const api::ModelInfo> model_info = app_.model_info();
  if (model_info == nullptr)
    return refusal(http_request, {Code::kCancelled, "the model is being loaded; try again"});
  EngineClient& engine = *app_.engine();
  switch (route.endpoint) {
    case Endpoint::kModels: {
      const api::Page page{http_request.query_value("limit"), http_request.query_value("after_id"),
                           http_request.query_value("before_id")};
      return settled(api::models_reply(*model_info, http_request.dialect(), page), http_request);
    }
    case Endpoint::kModel:
      return settled(
          api::model_reply(*model_info, std::string(route.id_in(http_request.path)), http_request.dialect()),
          http_request);
    case Endpoint::kProps:
      return api::props_reply(*model_info);
    case Endpoint::kCache:
      return cache(http_request, engine);
    case Endpoint::kMetrics:
      return metrics(http_request, engine);
    default:
      return settled(stored_response(http_request, *model_info), http_request);
  }
}

Answer Router::post(const HttpRequest& http_request, const api::ModelInfo& model_info) const {
  const Route& route = route_of(http_request.path);
  if (route.reply != nullptr)
    return settled(route.reply(model_info, http_request.body, http_request.caller), http_request);
  if (route.decode != nullptr) {
    const api::ResponseMeta meta{api::random_id(""), now_s(), api::random_seed(), http_request.id,
                                 http_request.caller};
    Result<api::Exchange> exchange = route.decode(model_info, http_request.body, meta);
    if (!exchange.ok()) return refusal(http_request, exchange.error());
    app_.tell_unknown(exchange->notes.unknown);
    return std::move(*exchange);
  }
  if (route.endpoint == Endpoint::kLoad || route.endpoint == Endpoint::kUnload) {
    return refusal(http_request, {Code::kUnsupported,
                                  "this server has one model, which stays loaded; start it with --models to "
                                  "load and unload"});
  }
  if (route.endpoint == Endpoint::kCompact) return refusal(http_request, not_compacted(), 501);
  const std::string id(route.id_in(http_request.path));
  if (!app_.cancel(id, http_request.caller)) {
    return refusal(http_request,
                   {Code::kNotFound, fmt::format("no answer with the id \"{}\" is being decoded", id)});
  }
  return api::cancelled_reply(id);
}

Answer Router::route(const HttpRequest& http_request) const {
  if (std::optional<HttpResponse> reply = check_route(http_request)) return std::move(*reply);
  if (http_request.method != "POST") return get(http_request);
  if (!utf8_valid(http_request.body)) {
    return refusal(http_request, {Code::kInvalid, "the body is not UTF-8; encode it before sending"});
  }
  return post(http_request, *app_.model_info());
}

}  // namespace ft::server
