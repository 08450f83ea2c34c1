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
#include "server/guard.h"
#include "server/metrics_text.h"
#include "server/page.h"

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

constexpr std::array<std::string_view, 6> kGets{"/",      "/health",    "/metrics",
                                                "/props", "/v1/models", "/v1/cache"};
constexpr std::string_view kModel = "/v1/models/";
constexpr std::string_view kKept = "/v1/responses/";
constexpr std::string_view kCompletions = "/v1/chat/completions/", kCancel = "/cancel";

/// The id between /v1/chat/completions/ and /cancel; empty if it is no such path.
std::string_view cancelled_id(std::string_view path) {
  if (!path.starts_with(kCompletions) || !path.ends_with(kCancel)) return {};
  path.remove_prefix(kCompletions.size());
  return path.size() > kCancel.size() ? path.substr(0, path.size() - kCancel.size()) : std::string_view();
}

/// Methods that a path answers, for Allow; empty: there is no such path.
std::vector<std::string_view> methods_of(std::string_view path) {
  for (const DecodingRoute& route : kDecoding) {
    if (path == route.path) return {"POST"};
  }
  for (const ReplyingRoute& route : kReplying) {
    if (path == route.path) return {"POST"};
  }
  if (!cancelled_id(path).empty()) return {"POST"};
  if (path == "/v1/cache" || path.starts_with(kKept)) return {"GET", "HEAD", "DELETE"};
  const bool gets = path.starts_with(kModel) || std::find(kGets.begin(), kGets.end(), path) != kGets.end();
  return gets ? std::vector<std::string_view>{"GET", "HEAD"} : std::vector<std::string_view>();
}

/// A model, or an answer of /v1/responses that is kept, by the id at the path's end.
Result<Reply> one_of_many(const Incoming& incoming, const api::Served& served) {
  if (incoming.path.starts_with(kModel)) {
    return api::model_reply(served, incoming.path.substr(kModel.size()), incoming.dialect());
  }
  const std::string id = incoming.path.substr(kKept.size());
  if (incoming.method == "DELETE") return api::delete_response_reply(served, id);
  return api::stored_response_reply(served, id);
}

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

std::optional<Reply> Router::refuse(const Incoming& incoming) const {
  const std::string_view origin = incoming.header("origin");
  const bool web = origin.starts_with("http://") || origin.starts_with("https://") || origin == "null";
  if (web && !origin_fits(origin, options_.origins) && !is_own_page(origin, incoming.header("host"))) {
    return refusal(
        incoming,
        {Code::kInvalid,
         fmt::format("pages of {} may not use this server; start it with --cors {}", origin, origin)},
        403);
  }
  if (incoming.method == "OPTIONS") {
    Reply reply;
    reply.status = 204, reply.type.clear();
    reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    const std::string_view asked = incoming.header("access-control-request-headers");
    reply.headers.emplace_back("Access-Control-Allow-Headers",
                               asked.empty() ? "authorization, content-type" : std::string(asked));
    reply.headers.emplace_back("Access-Control-Max-Age", "600");
    return reply;
  }
  if (!needs_no_key(incoming) && !key_fits(incoming, options_.api_keys)) {
    return refusal(incoming,
                   {Code::kInvalid,
                    "the API key is missing or wrong; send it as Authorization: Bearer KEY, or "
                    "as x-api-key"},
                   401);
  }
  return std::nullopt;
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
  Engine& engine = *app_.engine();
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
  const std::string id(cancelled_id(incoming.path));
  if (!app_.cancel(id)) {
    return refusal(incoming,
                   {Code::kNotFound, fmt::format("no answer with the id \"{}\" is being decoded", id)});
  }
  return api::cancelled_reply(id);
}

Answer Router::route(const Incoming& incoming) const {
  const std::vector<std::string_view> methods = methods_of(incoming.path);
  if (methods.empty()) {
    return refusal(incoming, {Code::kNotFound, fmt::format("there is no {}; GET /v1/models lists what is "
                                                           "served, the README what can be asked",
                                                           incoming.path)});
  }
  if (std::find(methods.begin(), methods.end(), incoming.method) == methods.end()) {
    Reply reply = refusal(incoming,
                          {Code::kInvalid, fmt::format("{} answers {}, not {}", incoming.path,
                                                       methods.front(), incoming.method)},
                          405);
    reply.headers.emplace_back("Allow", fmt::format("{}, OPTIONS", fmt::join(methods, ", ")));
    return reply;
  }
  if (incoming.method != "POST") return get(incoming);
  const std::shared_ptr<const api::Served> served = app_.served();
  if (served == nullptr) return refusal(incoming, {Code::kCancelled, "the model is being loaded; try again"});
  if (app_.draining() && cancelled_id(incoming.path).empty()) {
    return refusal(incoming, {Code::kCancelled, "the server is stopping"});
  }
  return post(incoming, *served);
}

std::string Router::route_name(const Incoming& incoming) {
  if (incoming.path.starts_with(kModel)) return std::string(kModel) + "{id}";
  if (!cancelled_id(incoming.path).empty()) return "/v1/chat/completions/{id}/cancel";
  return methods_of(incoming.path).empty() ? "other" : incoming.path;
}

}  // namespace ft::server
