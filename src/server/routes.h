// Routes: the served paths, as patterns with an id and a handler. It is a closed set: metrics and
// logs count by these patterns whatever paths clients request. A new endpoint is a row of routes.cpp; one
// that needs the engine's state is also an Endpoint, which Router answers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace ft::api {
struct Caller;
struct Exchange;
struct HttpResponse;
struct ModelInfo;
struct ResponseMeta;
}  // namespace ft::api

namespace ft::server {

/// The handlers of routes that need more than the body.
enum class Endpoint : std::uint8_t {
  kByBody,  // Route::decode or Route::reply
  kPage,
  kHealth,
  kMetrics,
  kProps,
  kModels,
  kModel,
  kLoad,  // of several models
  kUnload,
  kCache,
  kStoredResponse,
  kCompact,  // refused
  kCancel,
  kUnknown,
};

struct Route {
  using Decode = Result<api::Exchange> (*)(const api::ModelInfo&, std::string_view body,
                                           const api::ResponseMeta&);
  using Reply = Result<api::HttpResponse> (*)(const api::ModelInfo&, std::string_view body,
                                              const api::Caller&);

  std::string_view pattern;  // "/v1/responses/{id}"
  std::string_view methods;  // value of Allow; empty: no path has this route
  Endpoint endpoint = Endpoint::kByBody;
  Decode decode = nullptr;  // POST whose answer the engine decodes
  Reply reply = nullptr;    // POST that is answered without the engine
  bool needs_key = true;    // where the server has keys

  bool answers(std::string_view method) const;
  /// The value of {id} in `path`; empty if the pattern has none.
  std::string_view id_in(std::string_view path) const;
};

/// All routes; the last is "other", for unknown paths.
std::span<const Route> all_routes();
const Route& route_of(std::string_view path);

}  // namespace ft::server
