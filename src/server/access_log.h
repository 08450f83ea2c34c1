// Writes one line per request, for people or (--log-json) as JSON: time, route, status, duration, token
// count. It never contains the conversation. Fields that clients choose are cut at 1 kB and their controls
// are escaped. Lines go to the log's queue (base/log.h).
#pragma once

#include <chrono>
#include <string>

#include "server/http_request.h"
#include "server/options.h"

namespace ft::server {

struct AccessLine {
  int status = 0;
  double ms = 0;
  std::string note;  // "client left", "12 tokens"
};

/// Successful periodic requests of monitors and balancers: logged only at level debug.
bool is_poll(const HttpRequest& http_request, const AccessLine& line);

/// The line without its newline: printable UTF-8.
std::string access_text(const HttpRequest& http_request, const AccessLine& line, bool json);

class AccessLog {
 public:
  explicit AccessLog(const ServerOptions& options) : json_(options.log_json), quiet_(options.quiet) {}
  void write(const HttpRequest& http_request, const AccessLine& line) const;

 private:
  bool json_, quiet_;
};

}  // namespace ft::server
