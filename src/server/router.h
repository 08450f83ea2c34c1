// Router: maps a method and path to an answer: a complete response, or an exchange that decodes. It knows no
// sockets. The server owns it. Its methods are const, and several threads may call them: GET runs on the I/O
// thread, POST on the text lanes because rendering and encoding take time. Errors are responses in the
// client's dialect.
#pragma once

#include <string>
#include <variant>

#include "api/writer.h"
#include "server/app.h"
#include "server/auth.h"
#include "server/host.h"
#include "server/http_request.h"
#include "server/options.h"

namespace ft::server {

using Answer = std::variant<api::HttpResponse, api::Exchange>;

/// The reply of an error in the client's dialect; status 0: the status of the error.
api::HttpResponse refusal(const HttpRequest& http_request, const Error& error, int status = 0);
/// The reply, or the refusal of its error.
api::HttpResponse settled(Result<api::HttpResponse> reply, const HttpRequest& http_request);
/// GET and DELETE of what POST /v1/responses stored; only `model_info.responses` is used.
Result<api::HttpResponse> stored_response(const HttpRequest& http_request, const api::ModelInfo& model_info);
/// The answer of /v1/responses/compact.
Error not_compacted();

class Router {
 public:
  /// Both must outlive the router.
  Router(const ServerOptions& options, App& app)
      : options_(options),
        app_(app),
        keys_(options.front_secret.empty() ? KeyRing(options.api_keys, options.admin_keys)
                                           : KeyRing::behind_front(options.front_secret)) {}

  /// From now on only these keys are accepted; requests that were accepted continue.
  void replace_keys(KeyRing keys) { keys_.replace(std::move(keys)); }

  /// Checks the request header before the body is read: host, origin, preflight, key, route, method, and
  /// readiness. Returns the final response, or nullopt to continue; the request then names its caller.
  std::optional<api::HttpResponse> check_request(HttpRequest& http_request) const;
  /// Answers a request that check_request() accepted.
  Answer route(const HttpRequest& http_request) const;
  /// Header fields that every answer to this request carries: CORS, x-request-id.
  std::vector<std::pair<std::string, std::string>> standing_headers(const HttpRequest& http_request) const;

 private:
  std::optional<api::HttpResponse> check_host(const HttpRequest& http_request) const;
  std::optional<api::HttpResponse> check_route(const HttpRequest& http_request) const;
  bool is_allowed(const Authority& host, std::string_view here) const;
  Answer get(const HttpRequest& http_request) const;
  Answer post(const HttpRequest& http_request, const api::ModelInfo& model_info) const;
  api::HttpResponse health() const;
  static api::HttpResponse cache(const HttpRequest& http_request, EngineClient& engine);
  api::HttpResponse metrics(const HttpRequest& http_request, const EngineClient& engine) const;

  const ServerOptions& options_;
  App& app_;
  LiveKeys keys_;
};

}  // namespace ft::server
