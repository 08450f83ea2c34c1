// One HTTP request and its answer. curl_transport.cpp is the only user of an HTTP library; tests script a
// transport in memory. Redirects are not followed: the caller decides which hosts get the token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "hub/pace.h"
#include "hub/settings.h"

namespace ft::hub {

struct HttpRequest {
  std::string url;
  std::string token;                   // empty: no Authorization header
  bool head_only = false;              // HEAD
  std::int64_t first = -1, last = -1;  // inclusive range of bytes; first < 0: all
};

struct ResponseHeader {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  /// The last header of that name, or empty.
  std::string_view header(std::string_view name) const;
};

/// Receives the body in pieces, in order; false ends the answer.
using BodySink = std::function<bool(const ResponseHeader&, std::string_view bytes)>;

/// A connection that is kept alive between requests; used by one thread.
class Connection {
 public:
  virtual ~Connection() = default;
  /// Returns the header of the answer, after the whole body has gone to `sink`. Errors: kBusy for a failure
  /// that may pass (reset, timeout, short body), kIo for a lasting one (certificate, proxy), kCancelled after
  /// the sink's false or a cancelled pace. The sentence names the host.
  virtual Result<ResponseHeader> send(const HttpRequest& request, const BodySink& sink) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Thread-safe.
  virtual std::unique_ptr<Connection> connect() = 0;
};

/// Over the network with libcurl; kUnsupported on a machine without it. The pace must outlive the transport.
Result<std::unique_ptr<Transport>> make_transport(const HubSettings& settings, const Pace& pace);

}  // namespace ft::hub
