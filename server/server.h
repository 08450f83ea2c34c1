// Server: the listener and its connections, all of them coroutines on one I/O thread; a second thread renders
// and encodes prompts. HTTP/1.1 with keep-alive, limits on head, body, times and connections; server-sent
// events. A client that leaves cancels its answer at once, a slow one pauses its own only.
// Owner: cli/commands/serve.cpp. Threads: run() is the I/O thread; port, stop and finish from any.
// Cost: 1,000 streams take some MB and one thread. Errors: listen() says what is wrong with host or port.
#pragma once

#include <memory>

#include "base/result.h"
#include "server/app.h"
#include "server/options.h"

namespace ft::server {

class Server {
 public:
  /// `app` must outlive the server.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options, App& app);
  ~Server();

  int port() const;
  /// Serves until stop().
  void run();
  /// Takes no more connections and ends the idle ones; run() returns when the last answer has ended, or after
  /// `grace_ms`.
  void stop(int grace_ms);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ft::server
