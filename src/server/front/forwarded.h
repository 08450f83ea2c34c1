// A request as the front passes it to the process of a model: the client's fields without the ones about its
// connection and its key, the front's own key, and the caller that the front found. Include it only in files
// that use Beast.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/front/front.h"
#include "server/http_request.h"

namespace ft::server {

/// Takes the body out of `http_request`.
boost::beast::http::request<boost::beast::http::string_body> forwarded(HttpRequest& http_request,
                                                                       const std::string& secret);
/// Whether the client gets this field of a process's reply: not fields of the connection, nor fields that the
/// front adds.
bool passes_on(std::string_view field);
/// The error of a process that ended before it answered.
api::HttpResponse process_ended(const HttpRequest& http_request, const std::string& model);
/// Connects to the process of the lease. False: it is gone.
boost::asio::awaitable<bool> connect(boost::beast::tcp_stream& stream, const Front::Lease& lease);
/// The whole reply of the model's process, for replies that are short.
boost::asio::awaitable<api::HttpResponse> ask(Front& front, const Front::Lease& lease,
                                              const HttpRequest& http_request,
                                              boost::asio::any_io_executor executor);

}  // namespace ft::server
