// The server's side of `serve`, the same for one model and for several: its options from the flags, its
// thread, and SIGHUP.
#pragma once

#include <thread>

#include "cli/commands/serving.h"
#include "server/server.h"

namespace ft::cli {

/// kInvalid names the flag.
Result<server::ServerOptions> server_options(const ServeOptions& choice, bool quiet);
/// At SIGHUP. Files that cannot be read leave the keys as they are.
void read_keys_again(const ServeOptions& choice, server::Server& server);

/// Runs the server; stops and joins it at the end of its life.
class ServerThread {
 public:
  explicit ServerThread(server::Server& server) : server_(server), thread_([this] { server_.run(); }) {}
  ~ServerThread() {
    server_.stop(0);
    thread_.join();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

 private:
  server::Server& server_;
  std::thread thread_;
};

}  // namespace ft::cli
