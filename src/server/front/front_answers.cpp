#include "server/front/front_answers.h"

#include <fmt/format.h>

#include "server/front/forwarded.h"
#include "server/front/front_metrics.h"
#include "server/page.h"
#include "server/router.h"
#include "server/routes.h"

namespace ft::server {
namespace {

namespace net = boost::asio;
using api::HttpResponse;
using net::awaitable;

constexpr int kNotFound = 404, kUnavailable = 503;

/// Only callers with a valid key may see the names of the models.
HttpResponse front_health(const ServerContext& server_context, const HttpRequest& http_request) {
  HttpResponse reply;
  if (server_context.app.draining()) {
    reply.status = kUnavailable, reply.body = R"({"status":"stopping"})";
    return reply;
  }
  const bool admitted = http_request.caller.is_operator || http_request.caller.owner != 0;
  if (admitted) return api::health_reply(server_context.front->listed());
  reply.body = R"({"status":"ready"})";
  return reply;
}

HttpResponse all_models(const Front& front, const HttpRequest& http_request) {
  const api::Page page{http_request.query_value("limit"), http_request.query_value("after_id"),
                       http_request.query_value("before_id")};
  return settled(api::models_reply(front.listed(), http_request.dialect(), page), http_request);
}

Result<std::size_t> named_in_path(const Front& front, const HttpRequest& http_request) {
  return front.model_of(std::string(route_of(http_request.path).id_in(http_request.path)));
}

awaitable<HttpResponse> load_model(Front& front, const HttpRequest& http_request) {
  const Result<std::size_t> model = named_in_path(front, http_request);
  if (!model.ok()) co_return refusal(http_request, model.error());
  const Result<Front::Lease> lease = co_await front.lease(*model);
  if (!lease.ok()) co_return lease_refusal(http_request, lease.error());
  co_return api::model_state_reply(front.listed(*model));
}

awaitable<HttpResponse> unload_model(Front& front, const HttpRequest& http_request) {
  const Result<std::size_t> model = named_in_path(front, http_request);
  if (!model.ok()) co_return refusal(http_request, model.error());
  co_await front.unload(*model);
  co_return api::model_state_reply(front.listed(*model));
}

/// /props and /v1/cache.
awaitable<HttpResponse> of_one_model(Front& front, const HttpRequest& http_request,
                                     net::any_io_executor executor) {
  const std::string name = http_request.query_value("model");
  std::optional<std::size_t> model = front.used_last();
  if (!name.empty()) {
    const Result<std::size_t> named = front.model_of(name);
    if (!named.ok()) co_return refusal(http_request, named.error());
    model = *named;
  }
  if (model && front.pool().at(*model).may_begin()) {
    const Result<Front::Lease> lease = co_await front.lease(*model);
    if (!lease.ok()) co_return lease_refusal(http_request, lease.error());
    co_return co_await ask(front, *lease, http_request, executor);
  }
  if (route_of(http_request.path).endpoint == Endpoint::kProps)
    co_return api::props_reply(front.listed(model.value_or(0)), front.options().version);
  co_return refusal(http_request, {Code::kNotFound, "no model is loaded, so there is no prefix cache"});
}

/// The first reply of a ready model that is not 404.
awaitable<HttpResponse> of_any_model(Front& front, const HttpRequest& http_request,
                                     net::any_io_executor executor) {
  HttpResponse reply =
      refusal(http_request, {Code::kNotFound, fmt::format("no loaded model knows {}", http_request.path)});
  for (const Front::Lease& lease : front.ready_ones()) {
    reply = co_await ask(front, lease, http_request, executor);
    if (reply.status != kNotFound) break;
  }
  co_return reply;
}

HttpResponse stored_reply(const Front& front, const HttpRequest& http_request) {
  api::ModelInfo model_info;
  model_info.responses = front.options().responses;
  return settled(stored_response(http_request, model_info), http_request);
}

HttpResponse front_figures(const ServerContext& server_context) {
  HttpResponse reply;
  reply.type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = front_metrics_text(server_context.front->pool(), server_context.app.http());
  return reply;
}

}  // namespace

bool names_model(const HttpRequest& http_request) {
  const Route& route = route_of(http_request.path);
  return http_request.method == "POST" && route.endpoint == Endpoint::kByBody;
}

HttpResponse lease_refusal(const HttpRequest& http_request, const Error& error) {
  const bool later = error.code == Code::kBusy;
  const bool too_large = error.code == Code::kExhausted;
  const bool fails = error.code == Code::kInvalid || error.code == Code::kUnsupported ||
                     error.code == Code::kNotFound;  // of the model's files, not of the request
  HttpResponse reply = refusal(http_request, error, later || too_large ? kUnavailable : fails ? 500 : 0);
  if (later) reply.headers.emplace_back("Retry-After", "5");
  if (too_large) reply.headers.emplace_back("x-should-retry", "false");
  return reply;
}

awaitable<HttpResponse> front_reply(ServerContext& server_context, const HttpRequest& http_request,
                                    net::any_io_executor executor) {
  Front& front = *server_context.front;
  switch (route_of(http_request.path).endpoint) {
    case Endpoint::kPage:
      co_return page_reply(http_request, ui_asset());
    case Endpoint::kHealth:
      co_return front_health(server_context, http_request);
    case Endpoint::kMetrics:
      if (!http_request.query_value("model").empty())
        co_return co_await of_one_model(front, http_request, executor);
      co_return front_figures(server_context);
    case Endpoint::kModels:
      co_return all_models(front, http_request);
    case Endpoint::kModel: {
      const Result<std::size_t> model = named_in_path(front, http_request);
      if (!model.ok()) co_return refusal(http_request, model.error());
      co_return api::model_reply(front.listed(*model), http_request.dialect());
    }
    case Endpoint::kLoad:
      co_return co_await load_model(front, http_request);
    case Endpoint::kUnload:
      co_return co_await unload_model(front, http_request);
    case Endpoint::kProps:
    case Endpoint::kCache:
      co_return co_await of_one_model(front, http_request, executor);
    case Endpoint::kStoredResponse:
      if (front.options().responses != nullptr) co_return stored_reply(front, http_request);
      co_return co_await of_any_model(front, http_request, executor);
    case Endpoint::kCancel:
      co_return co_await of_any_model(front, http_request, executor);
    default:
      co_return refusal(http_request, not_compacted(), 501);
  }
}

}  // namespace ft::server
