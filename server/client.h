// Client: the other end of the wire, for the command line (connect, chat --server, bench serve): GET, POST
// and a POST whose answer is read line by line as it comes. A connection a call, plain HTTP; TLS is what a
// proxy adds. Owner: a value. Thread: any; a call blocks its caller, several calls may run at once. Cost: a
// connection. Errors: kInvalid for an URL that is none, kUnsupported for https, kIo where nobody answers,
// silence lasts too long or the answer is no HTTP, kTooLong for one beyond the limits. A status of 400 or
// more is no error here: the reply tells it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ft::server {

inline constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20;  // of a body that is not read by lines
inline constexpr std::size_t kMaxAnswerLine = std::size_t{8} << 20;

struct ClientOptions {
  int connect_ms = 3'000;
  int silence_ms = 600'000;  // without a byte from the server
};

struct ClientResponse {
  int status = 0;
  std::string body;  // empty where it was read by lines
  std::vector<std::pair<std::string, std::string>> headers;
  /// The first of this name, whatever its case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

class Client {
 public:
  /// `url` as http://host:port, with or without a path before the routes and a / at its end.
  static Result<Client> make(const std::string& url, std::string api_key, ClientOptions options = {});

  /// http://host:port and the path before the routes, without a / at its end.
  std::string url() const;
  /// "127.0.0.1:8080", "[::1]:8080"
  std::string authority() const;

  Result<ClientResponse> get(const std::string& path) const { return exchange("GET", path, "", {}); }
  Result<ClientResponse> post(const std::string& path, const std::string& json) const {
    return exchange("POST", path, json, {});
  }
  /// `take` gets each line of a 200, without its end; false closes the connection and ends the call. The body
  /// of any other status is in the reply.
  Result<ClientResponse> stream(const std::string& path, const std::string& json,
                                const std::function<bool(std::string_view line)>& take) const {
    return exchange("POST", path, json, take);
  }

 private:
  Client() = default;
  Result<ClientResponse> exchange(const std::string& method, const std::string& path, const std::string& json,
                                  const std::function<bool(std::string_view)>& take) const;

  std::string host_, port_ = "80", prefix_, api_key_;
  ClientOptions options_;
};

}  // namespace ft::server
