// Relay: one request to a server of several models. The front answers requests for its own data; others go to
// the process of the model, and its answer passes through as it arrives. The client is watched meanwhile: if
// it disconnects, the connection to the process closes, which cancels the answer there. Owner: the client's
// connection (server/connection.cpp). Thread: the I/O thread. Errors are replies in the client's dialect; a
// stream whose process ends gets a last frame with the error.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <optional>
#include <string>
#include <variant>

#include "server/access_log.h"
#include "server/front/front.h"
#include "server/reader.h"
#include "server/send_ahead.h"
#include "server/server_context.h"

namespace ft::server {

class Relay {
 public:
  /// All must outlive the relay; `server_context` has a front.
  Relay(boost::beast::tcp_stream& client, SendAhead& ahead, ServerContext& server_context)
      : client_(client), ahead_(ahead), server_context_(server_context), model_(client.get_executor()) {}

  /// A reply for the connection to send, or whether the connection continues.
  using Outcome = std::variant<api::HttpResponse, bool>;
  boost::asio::awaitable<Outcome> run(Received& received, AccessLine& line);

 private:
  template <class T>
  using awaitable = boost::asio::awaitable<T>;

  awaitable<Result<std::size_t>> choose(const HttpRequest& http_request);
  awaitable<std::optional<api::HttpResponse>> begin(Received& received, std::size_t model);
  awaitable<void> contained_begin(Received& received, std::size_t model);
  awaitable<bool> pass_on(const Received& received);
  awaitable<bool> contained_pass_on(const Received& received);
  awaitable<bool> send_header(const Received& received);
  awaitable<bool> send_bytes(const Received& received, std::string_view bytes);
  awaitable<void> tell_of_end(const Received& received);
  awaitable<void> until_left(bool sends);

  boost::beast::tcp_stream& client_;
  SendAhead& ahead_;
  ServerContext& server_context_;
  boost::beast::tcp_stream model_;  // to the process
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::buffer_body>> parser_;
  std::optional<Front::Lease> lease_;
  std::optional<api::HttpResponse> refusal_;
  bool broke_ = false;  // the process ended during its answer
};

}  // namespace ft::server
