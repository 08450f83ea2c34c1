// What the server is told once. Owner: cli/commands/serve.cpp. Thread: immutable once started. Times in
// milliseconds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ft::server {

/// Of a head, a chunk's extension, or all trailers of a body.
inline constexpr std::size_t kMaxHeadBytes = std::size_t{64} << 10;
/// Of all bodies that are being received, over all connections; a single one may have api::kMaxBodyBytes.
inline constexpr std::size_t kMaxBodiesBytes = std::size_t{256} << 20;

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                    // 0: any free one
  std::vector<std::string> api_keys;  // empty: none is asked for
  std::vector<std::string> origins;   // besides loopback; "*": all
  std::vector<std::string> hosts;     // that Host may name besides this machine's addresses
  std::size_t bodies_bytes = kMaxBodiesBytes;
  int head_ms = 10'000;        // from a head's first byte to its last
  int body_ms = 60'000;        // for the whole body
  int idle_ms = 75'000;        // between requests of one connection
  int write_ms = 60'000;       // for a client to take what is sent
  int keep_alive_ms = 10'000;  // between frames of a stream that has nothing to say
  int connections = 4096;      // open at once; further ones wait to be accepted
  bool log_json = false;
  bool quiet = false;  // no line per request
};

}  // namespace ft::server
