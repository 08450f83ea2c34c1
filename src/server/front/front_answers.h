// Answers of a server of several models for requests without a model in the body: the page, /health,
// /metrics, /v1/models and its /load and /unload. /props and /v1/cache go to the model of ?model=, else to
// the last used one. Stored responses and cancellations go to the process that has the id.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "server/server_context.h"

namespace ft::server {

/// Whether the request's body names its model.
bool names_model(const HttpRequest& http_request);
boost::asio::awaitable<api::HttpResponse> front_reply(ServerContext& server_context,
                                                      const HttpRequest& http_request,
                                                      boost::asio::any_io_executor executor);
/// The refusal of a request whose model is not available.
api::HttpResponse lease_refusal(const HttpRequest& http_request, const Error& error);

}  // namespace ft::server
