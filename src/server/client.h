// Client: HTTP client of the command line (connect, chat --server, bench serve). It sends GET and POST, and
// reads a POST's answer line by line as it arrives. Each call opens one plain HTTP connection; TLS needs a
// proxy. A call blocks its caller, and several threads may call at once. Errors: kInvalid for a malformed
// URL, kUnsupported for https, kIo for a failed connection, a silence timeout, or an invalid HTTP answer,
// kTooLong beyond the limits. Statuses of 400 and above are answers, not errors.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ft::server {

inline constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20;  // for a body that is not read by lines
inline constexpr std::size_t kMaxAnswerLine = std::size_t{8} << 20;

struct ClientOptions {
  int connect_ms = 3'000;
  int silence_ms = 600'000;  // max time without data from the server
};

struct ClientResponse {
  int status = 0;
  std::string body;  // empty if it was read by lines
  std::vector<std::pair<std::string, std::string>> headers;
  /// The first header with this name, ignoring case; empty if absent.
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
  /// `take` receives each line of a 200 answer without its newline; false closes the connection and ends the
  /// call. For any other status, the body is in the response.
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
