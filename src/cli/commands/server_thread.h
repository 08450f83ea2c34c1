// The server's side of `serve`, the same for one model and for several: its options from the flags, its
// thread, SIGHUP, and the end after SIGTERM.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "cli/commands/serving.h"
#include "server/server.h"

namespace ft::cli {

/// kInvalid names the flag.
Result<server::ServerOptions> server_options(const ServeOptions& choice, bool quiet);
/// At SIGHUP. Files that cannot be read leave the keys as they are.
void read_keys_again(const ServeOptions& choice, server::Server& server);

/// After SIGTERM: `drain` gives the running answers their grace period and returns false if some were
/// cancelled. Reports both in the log, unless quiet, and writes the log's last lines.
void end_answers(bool quiet, const std::function<bool()>& drain);
/// Waits until no answer is being sent. False: `limit` passed before.
bool wait_for_answers(const server::App& app, std::chrono::milliseconds limit);

/// Runs the server; its destructor stops and joins it.
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
