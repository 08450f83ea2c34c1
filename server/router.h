// Router: method and path to an answer: a whole reply, or an exchange that decodes. Knows no sockets.
// Owner: the server. Thread: const; any number (GET on the I/O thread, POST on the text pool, because
// rendering and encoding take time). Cost: that of the route. Errors: as replies in the client's dialect.
#pragma once

#include <string>
#include <variant>

#include "api/writer.h"
#include "server/app.h"
#include "server/host.h"
#include "server/http_request.h"
#include "server/options.h"

namespace ft::server {

using Answer = std::variant<api::HttpResponse, api::Exchange>;

class Router {
 public:
  /// Both must outlive the router.
  Router(const ServerOptions& options, App& app) : options_(options), app_(app) {}

  /// By the head alone, before any body is read: host, origin, preflight, key, route, method, and whether
  /// there is a model yet. A reply that ends the matter, or none.
  std::optional<api::HttpResponse> judge(const HttpRequest& http_request) const;
  /// Of what judge() let pass.
  Answer route(const HttpRequest& http_request) const;
  /// Header fields that every answer to this request carries: CORS, x-request-id.
  std::vector<std::pair<std::string, std::string>> standing_headers(const HttpRequest& http_request) const;

 private:
  std::optional<api::HttpResponse> judge_host(const HttpRequest& http_request) const;
  std::optional<api::HttpResponse> judge_route(const HttpRequest& http_request) const;
  bool is_allowed(const Authority& host, std::string_view here) const;
  Answer get(const HttpRequest& http_request) const;
  Answer post(const HttpRequest& http_request, const api::ModelInfo& model_info) const;
  api::HttpResponse health() const;

  const ServerOptions& options_;
  App& app_;
};

}  // namespace ft::server
