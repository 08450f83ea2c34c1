// One line a request on stderr, for people or (--log-json) as JSON: when, what, how it ended, how long it
// took, how many tokens; never what was said. Owner: the server. Thread: the I/O thread. Cost: a write.
// Errors: none; a line that cannot be written is dropped.
#pragma once

#include <chrono>
#include <string>

#include "server/incoming.h"
#include "server/options.h"

namespace ft::server {

struct AccessLine {
  int status = 0;
  double ms = 0;
  std::string note;  // "client left", "12 tokens"
};

class AccessLog {
 public:
  explicit AccessLog(const ServerOptions& options) : json_(options.log_json), quiet_(options.quiet) {}
  void write(const Incoming& incoming, const AccessLine& line) const;

 private:
  bool json_, quiet_;
};

}  // namespace ft::server
