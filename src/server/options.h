// Options of the server. cli/commands/serve.cpp owns them; they are immutable once the server has started.
// Times are in milliseconds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ft::server {

/// Max bytes of a request header, a chunk extension, or all trailers of a body.
inline constexpr std::size_t kMaxRequestHeaderBytes = std::size_t{64} << 10;
/// Max total bytes of all bodies being received, over all connections; one body may have api::kMaxBodyBytes.
inline constexpr std::size_t kMaxBodiesBytes = std::size_t{256} << 20;

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                      // 0: any free port
  std::vector<std::string> api_keys;    // empty, and admin_keys too: no key required
  std::vector<std::string> admin_keys;  // of operators, who may use the data of other keys
  std::string front_secret;             // of a process of a front; the keys are then the front's
  std::vector<std::string> origins;     // allowed besides loopback; "*": all
  std::vector<std::string> hosts;       // allowed in Host besides this machine's addresses
  std::size_t bodies_bytes = kMaxBodiesBytes;
  int header_ms = 10'000;      // from the first to the last byte of a request header
  int body_ms = 60'000;        // for the whole body
  int idle_ms = 75'000;        // between requests of one connection
  int write_ms = 60'000;       // for a client to receive a write
  int keep_alive_ms = 10'000;  // between frames of an idle stream
  int connections = 4096;      // max open connections; further ones wait to be accepted
  bool log_json = false;
  bool quiet = false;  // no access log
};

}  // namespace ft::server
