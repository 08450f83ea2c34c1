// ServerContext: state shared by all connections. The server owns it, and only the I/O thread uses it, except
// for the text lanes. Include it only in files that use Beast.
#pragma once

#include "server/access_log.h"
#include "server/body_budget.h"
#include "server/front/front.h"
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
  Router router;
  AccessLog log;
  BodyBudget bodies;
  Front* front = nullptr;  // of several models; null: there is one model, in `app`
  TextLanes text;          // renders and encodes prompts
  int connections = 0;
  bool stopping = false;
};

}  // namespace ft::server
