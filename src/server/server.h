// Server: the listener and its connections, all of them coroutines on one I/O thread; the text lanes render
// and encode prompts. It serves HTTP/1.1 with keep-alive, server-sent events, and limits on request headers,
// bodies, times, and connections. A disconnect cancels its answer at once; a slow client pauses only its own
// answer. cli/commands/serve.cpp owns it. run() is the I/O thread; port, stop, and finish may be called from
// any thread. 1,000 streams take some MB and one thread. Errors of listen() name the invalid host or port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/app.h"
#include "server/front/model_process.h"
#include "server/options.h"

namespace ft::server {

struct FrontOptions;

class Server {
 public:
  /// `app` must outlive the server.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options, App& app);
  /// The front of several models.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options, App& app, FrontOptions front,
                                                std::unique_ptr<ModelStarter> starter);
  ~Server();

  int port() const;
  /// From now on only these keys are accepted. Any thread may call it.
  void replace_keys(const std::vector<std::string>& keys, const std::vector<std::string>& operator_keys);
  /// Serves until stop().
  void run();
  /// Refuses new connections and closes the idle ones; run() returns after the last answer has ended, or
  /// after `grace_ms`.
  void stop(int grace_ms);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ft::server
