// Hub: what all connections share on the I/O thread. Owner: the server. Thread: the I/O thread, but for the
// pool's own. Included by the files that know Beast only.
#pragma once

#include "server/access_log.h"
#include "server/body_budget.h"
#include "server/router.h"
#include "server/text_lanes.h"

namespace ft::server {

struct ServerContext {
  ServerContext(const ServerOptions& server_options, App& server_app)
      : options(server_options),
        app(server_app),
        router(options, app),
        log(options),
        bodies(options.bodies_bytes) {}

  const ServerOptions options;
  App& app;
  const Router router;
  AccessLog log;
  BodyBudget bodies;
  TextLanes text;  // renders and encodes prompts
  int connections = 0;
  bool stopping = false;
};

}  // namespace ft::server
